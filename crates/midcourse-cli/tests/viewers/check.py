"""Sends a run to Arize Phoenix and MLflow and checks what they show of it.

    check.py VIEWERS MIDCOURSE SCRATCH

VIEWERS is the folder with both programs, MIDCOURSE the program under test, SCRATCH an empty folder. Both servers run on the
loopback interface, with data folders of their own. Prints what was checked, and the addresses of the traces; with a third
argument after SCRATCH, waits for Enter before the servers end, so that somebody can look.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

viewers, midcourse, scratch = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
PHOENIX, MLFLOW = "http://127.0.0.1:36006", "http://127.0.0.1:35000"
RUN, SUBAGENT = "viewers-run", "viewers-run.worker"
REASON = "The user does not want to delete node_modules"
ERROR = "Error: Cannot find module './cart'"


def records():
    """A run with failures, a refused call, a subagent, and a model's responses."""
    at = int(time.time() * 1000) - 600_000
    lines = []

    def add(run, kind, **payload):
        nonlocal at
        at += 1500
        line = {"run_id": run, "recorded_at_unix_ms": at, "payload": {"kind": kind, **payload}, "host": "agent"}
        if run == SUBAGENT:
            line |= {"parent_run_id": RUN, "depth": 1}
        lines.append(json.dumps(line))

    def call(run, name, tool, args, text, failed=False):
        add(run, "tool_started", tool_call_id=name, tool_name=tool, args=args)
        if tool == "Task":
            subagent()
        add(run, "tool_ended", tool_call_id=name, tool_name=tool, is_error=failed,
            result={"content": [{"type": "text", "text": text}], "is_error": failed})

    def say(run, role, text, **more):
        content = text if role == "user" else [{"type": "text", "text": text}]
        add(run, "message_appended", message={"role": role, "content": content, **more})

    def subagent():
        add(SUBAGENT, "run_started", identity={"run_id": SUBAGENT, "parent_run_id": RUN, "depth": 1})
        say(SUBAGENT, "user", "Find where the cart module was moved to.")
        call(SUBAGENT, "s1", "Grep", {"pattern": "class Cart"}, "src/basket/cart.js:1:class Cart {")
        say(SUBAGENT, "assistant", "It is now in src/basket/cart.js.", stop_reason="end_turn")
        add(SUBAGENT, "run_ended", outcome="completed", new_messages=[])

    add(RUN, "run_started", identity={"run_id": RUN, "depth": 0})
    add(RUN, "run_described", model="claude-sonnet-4-5", folder="/srv/shop")
    say(RUN, "user", "Fix the failing tests of the checkout.")
    for number in range(4):
        call(RUN, f"c{number}", "Bash", {"command": "npm test"}, ERROR, failed=True)
    add(RUN, "tool_started", tool_call_id="d1", tool_name="Bash", args={"command": "rm -rf node_modules"})
    add(RUN, "denied", tool_call_id="d1", tool_name="Bash", reason=REASON)
    call(RUN, "t1", "Task", {"prompt": "Find where the cart module was moved to."}, "It is now in src/basket/cart.js.")
    say(RUN, "assistant", "I will change the import.", stop_reason="tool_use", usage={"input_tokens": 5200, "output_tokens": 180})
    call(RUN, "e1", "Edit", {"file": "checkout.js"}, "The file checkout.js has been updated.")
    call(RUN, "c9", "Bash", {"command": "npm test"}, "12 passing")
    say(RUN, "assistant", "The tests pass again.", stop_reason="end_turn", usage={"input_tokens": 5600, "output_tokens": 20})
    add(RUN, "run_ended", outcome="completed", new_messages=[])
    return "\n".join(lines) + "\n"


def start(name, args, **variables):
    folder = scratch / name
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DO_NOT_TRACK": "true", **variables}
    log = open(folder / "log", "wb")
    return subprocess.Popen([viewers / name / "bin" / name, *args], cwd=folder, env=environment, stdout=log, stderr=log)


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def wait_for(what, seconds=300):
    until = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except OSError:
            pass
        assert time.monotonic() < until, "the server took too long; see its log"
        time.sleep(0.5)


def run(*args, **options):
    environment = {"PATH": os.environ["PATH"], "MIDCOURSE_HOME": str(scratch / "home")}
    return subprocess.run([midcourse, *args], env=environment, check=True, capture_output=True, text=True, **options).stdout


def phoenix_spans():
    query = """{ projects { edges { node { spans(first: 100) { edges { node {
        name spanKind statusCode statusMessage spanId parentId input { value } output { value } attributes
        events { name attributes } } } } } } } }"""
    data = json.loads(fetch(f"{PHOENIX}/graphql", {"query": query}))["data"]
    projects = [edge["node"] for edge in data["projects"]["edges"]]
    return [edge["node"] for project in projects for edge in project["spans"]["edges"]]


def check_phoenix(count):
    spans = wait_for(lambda: (found := phoenix_spans()) and len(found) == count and found)
    by_id = {span["spanId"]: span for span in spans}
    agents = [span for span in spans if span["spanKind"] == "agent"]
    root = next(span for span in agents if span["parentId"] is None)
    assert (root["input"]["value"], root["output"]["value"]) == ("Fix the failing tests of the checkout.", "The tests pass again.")
    subagent = next(span for span in agents if span is not root)
    assert by_id[subagent["parentId"]]["name"] == "execute_tool Task"
    failed = [span for span in spans if span["output"] and span["output"]["value"] == ERROR]
    assert len(failed) == 4 and all(span["statusCode"] == "ERROR" for span in failed)
    assert "npm test" in json.loads(failed[0]["attributes"])["tool"]["parameters"]["command"]
    assert [span["statusMessage"] for span in spans if REASON in span["statusMessage"]] == [f"denied: {REASON}"]
    events = [event for span in spans for event in span["events"]]
    messages = [event["attributes"] for event in events if event["name"] == "midcourse.guidance_delivered"]
    assert messages and "npm test" in messages[0]["midcourse.text"] and messages[0]["midcourse.evidence"]
    assert all(span in by_id for span in messages[0]["midcourse.evidence.span_ids"])
    assert any(event["name"] == "midcourse.outcome" for event in events)
    assert any(span["spanKind"] == "llm" for span in spans)


def check_mlflow(count, trace):
    info = json.loads(fetch(f"{MLFLOW}/ajax-api/3.0/mlflow/traces/tr-{trace}"))["trace"]["trace_info"]
    assert info["state"] == "OK" and "Fix the failing" in info["request_preview"], info
    tokens = json.loads(info["trace_metadata"]["mlflow.trace.tokenUsage"])
    assert tokens["input_tokens"] == 10800, tokens
    query = f"{MLFLOW}/ajax-api/3.0/mlflow/get-trace-artifact?request_id=tr-{trace}"
    spans = json.loads(fetch(query))["spans"]
    assert len(spans) == count
    text = json.dumps(spans)
    for expected in (ERROR, REASON, "midcourse.guidance_delivered", "midcourse.evidence", "src/basket/cart.js"):
        assert json.dumps(expected)[1:-1] in text or expected in text, expected


def main():
    servers = [
        start("phoenix", ["serve"], PHOENIX_WORKING_DIR=str(scratch / "phoenix"), PHOENIX_HOST="127.0.0.1",
              PHOENIX_PORT="36006", PHOENIX_GRPC_PORT="34317", PHOENIX_TELEMETRY_ENABLED="false",
              PHOENIX_ALLOW_EXTERNAL_RESOURCES="false", PHOENIX_DISABLE_AGENT_ASSISTANT="true"),
        start("mlflow", ["server", "--backend-store-uri", f"sqlite:///{scratch}/mlflow/mlflow.db", "--default-artifact-root",
                         f"{scratch}/mlflow/artifacts", "--host", "127.0.0.1", "--port", "35000", "--workers", "1"],
              MLFLOW_DISABLE_TELEMETRY="true"),
    ]
    try:
        run("record", input=records())
        send = ["export", RUN, "--to", "otlp", "--endpoint"]
        wait_for(lambda: fetch(PHOENIX))
        sent = run(*send, PHOENIX)
        count, trace = int(sent.split()[1]), sent.split("trace ")[1].split(")")[0]
        check_phoenix(count)
        assert "Nothing new" in run(*send, PHOENIX)
        run(*send, PHOENIX, "--again")
        check_phoenix(count)
        print(f"Phoenix shows {count} spans: {PHOENIX}")
        wait_for(lambda: fetch(MLFLOW))
        for more in ([], ["--again"]):
            run(*send, MLFLOW, "--header", "x-mlflow-experiment-id=0", *more)
            check_mlflow(count, trace)
        print(f"MLflow shows {count} spans: {MLFLOW}/#/experiments/0/traces?selectedEvaluationId=tr-{trace}")
        if len(sys.argv) > 4:
            input("Press Enter to end.")
    finally:
        for server in servers:
            server.terminate()


main()
