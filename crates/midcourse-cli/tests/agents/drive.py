#!/usr/bin/env python3
"""Drives real agents bare and under `midcourse run`, and compares what they ask of whom.

    drive.py [--agents a,b | --group quick] [--via bare,run] [--address default,env,dotenv,config,flag]
             [--midcourse PATH] [--out FOLDER] [--jobs N]

An agent's address comes from one place, or from two that disagree ("dotenv+env"): see `Agent.places`. Everything that an
agent asks is answered by network.py. Under `run`, it has to ask the same of the same hosts, with the same credentials and
the same bytes but for messages from midcourse; and print and return the same. Prints a table, writes results.json,
exits with 1 if anything differs.
"""
import argparse
import base64
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent import HERE, INSTALLED, Case
from network import FINAL_TEXT

MESSAGE = rb'(?P<text>\[midcourse run monitor\](?:(?!\\n</system-reminder>)(?:[^"\\]|\\.))*)'
# The forms in which the proxy inserts a message into the bytes of a request: as an element of a list, as a field, and at
# the end of a string.
INSERTIONS = [
    re.compile(rb',\{(?:"\w+":"\w+",)*"(?:text|content)":"(?:<system-reminder>\\n)?' + MESSAGE + rb'(?:\\n</system-reminder>(?:\\n)?)?"\}'),
    re.compile(rb',"content":"' + MESSAGE + rb'"'),
    re.compile(rb"(?:\\n\\n)?" + MESSAGE),
]
REMINDER = "<system-reminder"
# Headers that a proxy replaces, and those that change with the length of the body.
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "content-length", "te"}


def load_agents():
    agents = {}
    for path in sorted((HERE / "agents").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"agents_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for agent in module.AGENTS:
            agents[agent.name] = agent
    return agents


def without_messages(body):
    """The bytes that the client sent, and the messages that midcourse inserted."""
    messages = []
    for insertion in INSERTIONS:
        messages += [found["text"].decode() for found in insertion.finditer(body)]
        body = insertion.sub(b"", body)
    return body, messages


# Networks and agents have sessions of their own, so they would outlive this program.
running = set()


def start(command, **options):
    process = subprocess.Popen(command, start_new_session=True, **options)
    running.add(process)
    return process


def end(process):
    """Ends a process and what it left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    running.discard(process)


class Network:
    """A network.py of its own for one run of an agent."""

    def __init__(self, folder, script):
        folder.mkdir(parents=True)
        self.folder = folder
        (folder / "script.json").write_text(json.dumps(script))
        self.process = start([sys.executable, HERE / "network.py", folder, "--script", folder / "script.json"])
        end = time.monotonic() + 20
        while not (folder / "ready.json").exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("network.py did not start")
            time.sleep(0.02)
        self.ready = json.loads((folder / "ready.json").read_text())

    def end(self):
        end(self.process)
        return [json.loads(line) for line in (self.folder / "requests.jsonl").read_text().splitlines()]


def base_environment(case, temporary, agent):
    """What every agent gets: a home of its own, a company's proxy, and trust in its certificate authority."""
    ca, proxy, home = case.network["ca"], case.network["proxy"], str(case.home)
    loopback = "127.0.0.1,localhost"
    path = [str(agent.installed / "bin"), str(agent.installed / "node_modules/.bin"), os.environ["PATH"]]
    return {
        "PATH": ":".join(path), "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC", "USER": "user", "SHELL": "/bin/bash",
        "HOME": home, "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_CACHE_HOME": f"{home}/.cache", "XDG_STATE_HOME": f"{home}/.local/state", "TMPDIR": str(temporary),
        # Long enough even on a busy machine, so that no message comes one request late.
        "MIDCOURSE_PROXY_MAX_WAIT_MS": "60000",
        "MIDCOURSE_HOME": f"{home}/midcourse", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1",
        "HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": loopback, "no_proxy": loopback,
        "SSL_CERT_FILE": ca, "REQUESTS_CA_BUNDLE": ca, "CURL_CA_BUNDLE": ca, "NODE_EXTRA_CA_CERTS": ca,
        # midcourse itself has to set it for the programs in its table that need it.
        **({} if agent.in_table else {"NODE_USE_ENV_PROXY": "1"}),
    }


def run_case(agent, form, via, options, out):
    """Runs the agent once. Returns what was seen."""
    # The same path each time, outside of any repository: agents tell it to the model.
    root = options.temporary / agent.name / form
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    work, home, temporary = root / "work", root / "home", root / "tmp"
    for folder in (work, home, temporary):
        folder.mkdir(parents=True)
    network = Network(root / "network", agent.script())
    case = Case(form, work, home, network.ready, agent.suffix)
    try:
        agent.prepare(case)
        environment = {**base_environment(case, temporary, agent), **agent.environment(case)}
        command = [str(part) for part in agent.command(case)]
        prefix = {
            "bare": [],
            "again": [],
            "run": [options.midcourse, "run", options.run_option, "--"],
            "plain": [options.midcourse, "run", "--"],
            "proxy": [options.midcourse, "run", "--proxy=intercept", "--"],
            "redirect": [options.midcourse, "run", "--proxy=redirect", "--"],
        }[via]
        if via == "proxy":
            # Under a name that midcourse does not know, an agent gets no hooks.
            (root / "agent").symlink_to(command[0])
            command[0] = str(root / "agent")
        with open(root / "stdout", "wb") as stdout, open(root / "stderr", "wb") as stderr:
            started = time.monotonic()
            process = start(prefix + command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
            try:
                exit_code = process.wait(agent.timeout)
            except subprocess.TimeoutExpired:
                exit_code = "timeout"
            seconds = time.monotonic() - started
            end(process)
        recorded, trajectory = None, None
        if prefix:
            recorded, trajectory = recorded_runs(options.midcourse, environment, root)
    finally:
        entries = network.end()
        out.mkdir(parents=True)
        for name in ("stdout", "stderr", "list.json", "show.txt", "home/midcourse/hook.log", "network/requests.jsonl"):
            if (root / name).exists():
                shutil.copy(root / name, out)
    return {
        "exit": exit_code,
        "seconds": round(seconds, 2),
        "answer": normal(agent.answer((root / "stdout").read_text(errors="replace")), agent, network.ready),
        "requests": [request(entry, agent, network.ready) for entry in entries if entry["kind"] == "request"],
        "connects": sorted({(e["host"], e["port"], e["proxy_credential"]) for e in entries if e["kind"] == "connect"}, key=str),
        "handshake_errors": sorted({e["host"] for e in entries if e["kind"] == "handshake"}),
        "runs": recorded,
        "trajectory": trajectory,
    }


def recorded_runs(midcourse, environment, root):
    """The runs that `midcourse list` shows, and the calls and messages that `midcourse show` has for them."""

    def midcourse_says(*arguments):
        done = subprocess.run([midcourse, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def lines(text):
        return [json.loads(line) for line in text.splitlines()]

    listed = midcourse_says("list", "--json")
    (root / "list.json").write_text(listed)
    runs = lines(listed)
    (root / "show.txt").write_text("\n".join(midcourse_says("show", run["run_id"]) for run in runs))
    records = [record for run in runs for record in lines(midcourse_says("show", run["run_id"], "--json"))[1:]]
    return runs, trajectory(records)


def trajectory(records):
    """What has to be the same whether hooks, the proxy or both have recorded it: the calls with their outcomes, and why
    midcourse spoke. The names of tools and arguments may differ: hooks and model requests use different ones."""
    payloads = [(record["payload"], record.get("failed", False)) for record in records]
    started = [payload for payload, _ in payloads if payload["kind"] == "tool_started"]
    # Hooks report a refused call as refused; a request has an error as its result.
    ended = {p["tool_call_id"]: failed or p["kind"] == "denied" for p, failed in payloads if p["kind"] in ("tool_ended", "denied")}
    command = lambda args: args.get("command", args.get("cmd")) if isinstance(args, dict) else args
    return {
        "calls": [[command(call["args"]), ended.get(call["tool_call_id"])] for call in started],
        "causes": [[payload.get("provider"), payload.get("text")] for payload, _ in payloads if payload["kind"] == "guidance_delivered"],
    }


def normal(text, agent, ready, ids_only=False):
    """The text without what differs from run to run: the ports of the network, and what the agent names as volatile."""
    for name, address in ready.items():
        text = text.replace(address.removeprefix("http://"), name)
    for pattern, replacement in agent.ids if ids_only else agent.volatile:
        text = re.sub(pattern, replacement, text)
    return text


def request(entry, agent, ready):
    """A request as it is compared."""
    raw = base64.b64decode(entry["body"])
    place = entry["server"] if entry["server"] != "proxy" else f"{entry['scheme']}://{entry['host']}:{entry['port']}"
    is_check = "safety_check" in entry
    # A message in a safety check is a difference.
    body, messages = (raw, []) if is_check else without_messages(raw)
    headers = [[name, normal(value, agent, ready)] for name, value in entry["headers"] if name.lower() not in HOP_BY_HOP]
    return {
        "place": place, "method": entry["method"], "path": normal(entry["path"], agent, ready), "status": entry["status"],
        "credentials": entry["credentials"], "headers": headers, "turn": entry.get("turn"),
        "body": normal(body.decode(errors="replace"), agent, ready, is_check), "messages": messages,
        "safety_check": entry.get("safety_check"), "passes_for_user": passes_for_user(raw),
    }


def passes_for_user(body):
    """Whether the vendor's safety check, if the request asks for it, takes a message for words of the user.

    That check reads the request itself. Claude Code begins what the user did not write with a tag, or sends it as a
    message of the role system.
    """
    if b'"safeguards":' not in body:
        return False
    contents = [message["content"] for message in json.loads(body)["messages"] if message["role"] == "user"]
    texts = [block.get("text", "") for blocks in contents if isinstance(blocks, list) for block in blocks]
    texts += [text for text in contents if isinstance(text, str)]
    return any("[midcourse run monitor]" in text and not text.startswith(REMINDER) for text in texts)


def target(request):
    return " ".join([request["method"], request["place"], request["path"], json.dumps(request["credentials"], sort_keys=True)])


def answered(side):
    """The requests to compare. Of what does not exist here, such as telemetry, each only once: how often is chance."""
    once = {target(request): request for request in reversed(side["requests"]) if request["status"] != 200}
    return [request for request in side["requests"] if request["status"] == 200] + list(once.values())


def differences(bare, run):
    """What is different under `run`, as sentences."""
    found = []
    if bare["exit"] != run["exit"]:
        found.append(f"exit code {bare['exit']} bare, {run['exit']} under run")
    if bare["answer"] != run["answer"]:
        found.append(f"output: {first_difference(bare['answer'], run['answer'])}")
    if bare["connects"] != run["connects"]:
        found.append(f"connections {bare['connects']} bare, {run['connects']} under run")
    if run["handshake_errors"] != bare["handshake_errors"]:
        found.append(f"failed handshakes with {bare['handshake_errors']} bare, {run['handshake_errors']} under run")
    bare_targets, run_targets = (Counter(target(request) for request in answered(side)) for side in (bare, run))
    for name, sign in ((bare_targets - run_targets, "only bare"), (run_targets - bare_targets, "only under run")):
        found += [f"{sign}: {count} × {what}" for what, count in name.items()]
    if bare_targets == run_targets:
        # Requests of one kind in their order; agents send requests of different kinds concurrently.
        order = lambda request: (target(request), request["turn"] or 0)
        pairs = zip(sorted(answered(bare), key=order), sorted(answered(run), key=order))
        bodies, headers = [], []
        for one, two in pairs:
            if one["body"] != two["body"]:
                bodies.append(first_difference(one["body"], two["body"]))
            if sorted(one["headers"]) != sorted(two["headers"]):
                changed = [[header for header in a["headers"] if header not in b["headers"]] for a, b in ((one, two), (two, one))]
                headers.append(f"{changed[0]} bare, {changed[1]} under run")
        for what, texts in (("bodies", bodies), ("headers", headers)):
            if texts:
                found.append(f"{len(texts)} {what}, first: {texts[0]}")
    return found


def first_difference(one, two):
    start = len(os.path.commonprefix([one, two]))
    return f"…{one[max(0, start - 30):start + 80]!r} bare, …{two[max(0, start - 30):start + 80]!r} under run"


def what_midcourse_did(agent, form, via, run):
    """What was recorded and said, and what of that is not as expected."""
    messages = [request["messages"] for request in run["requests"] if request["turn"]]
    with_message = [number for number, texts in enumerate(messages, 1) if texts]
    runs = [entry for entry in run["runs"] if entry["calls"]]
    seen = {
        "runs": len(run["runs"]), "calls": [entry["calls"] for entry in runs], "failed": [entry["errors"] for entry in runs],
        "messages_in_requests": with_message,
    }
    by_hooks = agent.has_hooks and via == "plain"
    # An address in a file or option is out of the proxy's reach, unless it is the address of a model host.
    if form not in ("default", "env") and not by_hooks:
        return seen, []
    found = []
    is_recorded = agent.calls and (agent.proxy_reads or by_hooks)
    expected = ([agent.calls], [agent.failed]) if is_recorded else ([], [])
    if (seen["calls"], seen["failed"]) != expected:
        found.append(f"recorded calls {seen['calls']}, failed {seen['failed']} per run; expected {expected[0]} and {expected[1]}")
    read = [request for request in run["requests"] if request["turn"]]
    if read and not run["runs"]:
        found.append(f"no run was recorded for {len(read)} model requests")
    # A side request, such as for a title, is a conversation of its own. One that checks a call is not.
    conversations = 1 + sum(request["turn"] == 0 and not request["safety_check"] for request in run["requests"])
    if seen["runs"] > conversations:
        found.append(f"recorded {seen['runs']} runs for {conversations} conversations")
    if is_recorded and agent.is_told and not with_message:
        found.append("no message from midcourse in any request")
    for number, (texts, later) in enumerate(zip(messages, messages[1:]), 1):
        if set(texts) & set(later) and via not in agent.keeps_messages:
            found.append(f"the message in request {number} is in the next one too")
    if wrong := [request["turn"] for request in run["requests"] if request["passes_for_user"]]:
        found.append(f"the safety check takes the message in request {wrong} for words of the user")
    return seen, found


def drive(agent, form, options):
    """Bare and under `run`, compared. Returns a result per way of running."""
    results = {}
    bare, recorded = None, {}
    for via in options.via:
        if via == "plain" and not agent.in_table or via in ("proxy", "redirect") and via not in agent.ways:
            continue
        # Only addresses in the environment are redirected.
        if via == "redirect" and "env" not in form.split("+"):
            continue
        out = options.out / agent.name / form / via
        try:
            seen = run_case(agent, form, via, options, out)
        except Exception as error:  # one broken agent must not end the others
            results[via] = {"differences": [f"{via}: {type(error).__name__}: {error}"]}
            continue
        (out / "seen.json").write_text(json.dumps(seen, indent=1))
        turns = sum(bool(request["turn"]) for request in seen["requests"])
        found, more = [], {}
        if via == "bare":
            bare = seen
            if turns < len(agent.script()) or seen["exit"] or FINAL_TEXT not in seen["answer"]:
                found.append(f"bare: {turns} model requests, exit code {seen['exit']}; see {out}")
            found += agent.unexpected(form, seen)
        elif via == "again":
            found = differences(bare, seen)
        else:
            more["midcourse"], found = what_midcourse_did(agent, form, via, seen)
            found = (differences(bare, seen) if bare else []) + found
            if agent.has_hooks and form in ("default", "env"):
                recorded[via] = seen["trajectory"]
                first = next(iter(recorded))
                if recorded[via] != recorded[first]:
                    found.append(f"recorded {recorded[first]} with {first}, {recorded[via]} with {via}")
        results[via] = {
            "exit": seen["exit"], "seconds": seen["seconds"], "model_requests": turns,
            "places": sorted({request["place"] for request in seen["requests"]}),
            "paths": sorted({request["path"] for request in seen["requests"] if request["turn"]}),
            **more, "differences": [text if via in ("bare", "run") else f"{via}: {text}" for text in found],
        }
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", help="these agents, instead of all that are installed")
    parser.add_argument("--group", help="the agents of this group of `install`")
    parser.add_argument("--via", default="bare,run,plain,proxy,redirect", help="bare, again (bare, to find what differs anyway), run (--proxy=intercept), plain (no option), proxy (--proxy=intercept without hooks), redirect (--proxy=redirect)")
    parser.add_argument("--address", default="default,env,dotenv,config,flag", help="places that addresses come from")
    parser.add_argument("--midcourse", default=str(next(HERE.parents[3].glob("target/*/debug/midcourse"), "midcourse")))
    parser.add_argument("--run-option", default="--proxy=intercept", help="option of `midcourse run` for the way `run`")
    parser.add_argument("--out", type=Path, default=INSTALLED / "results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--packages", metavar="GROUP", help="print what `install` needs for this group, and exit")
    parser.add_argument("--table", action="store_true", help="print the results so far as the table in docs/agents.md, and exit")
    options = parser.parse_args()
    agents = load_agents()
    if options.table:
        return print_markdown(agents, earlier_results(options.out))
    if options.packages:
        for agent in {agent.folder: agent for agent in agents.values() if agent.group == options.packages}.values():
            print("npm" if agent.node else agent.python, agent.folder, *agent.packages)
        return 0
    if options.agents:
        chosen = [agents[name] for name in options.agents.split(",")]
    else:
        chosen = [a for a in agents.values() if a.installed.is_dir() and options.group in (None, a.group)]
    options.via = options.via.split(",")
    options.out = options.out.resolve()
    places = set(options.address.split(","))
    cases = [(agent, form) for agent in chosen for form in agent.forms if set(form.split("+")) <= places]
    results = {}
    with tempfile.TemporaryDirectory(prefix="midcourse-agents-", ignore_cleanup_errors=True) as temporary:
        options.temporary = Path(temporary)
        with ThreadPoolExecutor(options.jobs) as pool:
            waiting = [(agent.name, form, pool.submit(drive, agent, form, options)) for agent, form in cases]
            for name, form, result in waiting:
                results.setdefault(name, {})[form] = result.result()
                found = [text for via in result.result().values() for text in via["differences"]]
                print(f"{name:24} {form:12} {'DIFFERS' if found else 'ok':8} {what_was_said(result.result())}", flush=True)
                for text in found:
                    print(f"    {text[:600]}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    # Results of other agents stay.
    (options.out / "results.json").write_text(json.dumps({**earlier_results(options.out), **results}, indent=1))
    print()
    return print_table(results)


def what_was_said(result):
    """One line about what midcourse recorded and inserted."""
    lines = []
    for via, seen in result.items():
        if (what := seen.get("midcourse")) and what["calls"]:
            lines.append(f"{via}: calls {what['calls']}, failed {what['failed']}, message in request {what['messages_in_requests']}")
    return "; ".join(lines)


def earlier_results(out):
    path = out / "results.json"
    return json.loads(path.read_text()) if path.exists() else {}


# What the path of a model request ends in, and the API.
APIS = {
    "/messages": "Messages", "/chat/completions": "Chat Completions", "/responses": "Responses",
    ":generateContent": "Gemini", ":streamGenerateContent": "Gemini",
}


def print_markdown(agents, results):
    """One row per agent, from the runs with an address of the vendor or in the environment."""
    print("| agent | version | API | tool calls, failed | message in request |")
    print("|---|---|---|---|---|")
    for name, agent in agents.items():
        row = results.get(name, {})
        ways = [via for form in ("default", "env", "config") for via in row.get(form, {}).values() if "midcourse" in via]
        if not ways or any(via["differences"] for form in row.values() for via in form.values()):
            print(f"{name}: no results, or differences", file=sys.stderr)
            continue
        counts = {(*via["midcourse"]["calls"], *via["midcourse"]["failed"]) for via in ways if via["midcourse"]["calls"]}
        said = sorted({str(via["midcourse"]["messages_in_requests"]).strip("[]") for via in ways if via["midcourse"]["calls"]}, key=len)
        apis = sorted({api for via in ways for path in via["paths"] for end, api in APIS.items() if path.split("?")[0].endswith(end)})
        counted = " / ".join(f"{calls}, {failed}" for calls, failed in sorted(counts))
        print(f"| {name} | {agent.version} | {', '.join(apis)} | {counted} | {'; '.join(said) or '–'} |")
    return 0


def print_table(results):
    """Agents × forms. Returns the exit code."""
    forms = ["default", "env", "dotenv", "dotenv+env", "config", "config+env", "flag", "flag+env"]
    forms = [form for form in forms if any(form in row for row in results.values())]
    print(f"{'':24}", *(f"{form:12}" for form in forms))
    failed = False
    for name, row in results.items():
        cells = []
        for form in forms:
            count = sum(len(via["differences"]) for via in row.get(form, {}).values())
            failed |= count > 0
            cells.append("-" if form not in row else f"{count} differ" if count else "ok")
        print(f"{name:24}", *(f"{cell:12}" for cell in cells))
    return 1 if failed else 0


def end_all(*_):
    """Ends at once, without waiting: other threads would start the next agents meanwhile."""
    for process in list(running):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_all)
    signal.signal(signal.SIGINT, end_all)
    sys.exit(main())
