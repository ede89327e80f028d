"""Records runs, archives them, and compares what DuckDB reads in the archive with what SQLite reads in the store.

    check.py MIDCOURSE SCRATCH PAGE

MIDCOURSE is the program under test, SCRATCH an empty folder, PAGE the documentation whose queries have to give results.
"""

import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import duckdb

midcourse, scratch, page = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
archive = scratch / "archive"
DAY = 86_400_000


def lines():
    """Runs on three days with child runs, failed calls, long texts, tokens, costs and NUL characters."""
    found = []

    def add(run, at, kind, **payload):
        line = {"run_id": run, "host": "agent", "recorded_at_unix_ms": at, "payload": {"kind": kind, **payload}}
        if run.endswith(".worker"):
            line |= {"parent_run_id": run.removesuffix(".worker"), "depth": 1}
        found.append(json.dumps(line))

    for night in range(6):
        for run in (f"night-{night}", f"night-{night}.worker"):
            at = 1_790_000_000_000 + night * DAY // 2
            add(run, at, "message_appended", message={"role": "user", "content": f"Fix test {night}. \u0000 ’"})
            for number in range(20):
                at += 1000
                call, failed = f"call\u0000{number}", number % 5 == 4
                text = f"line {number} of a log 𝄞\n" * (400 if number % 3 == 0 else 2)
                usage = {"input_tokens": 100 + number, "output_tokens": 7, "cache_read_input_tokens": 5000}
                content = [{"type": "tool_call", "id": call, "name": "bash", "arguments": {"command": "make"}}]
                add(run, at, "message_appended", message={"role": "assistant", "content": content,
                                                          "model": "model-1", "stop_reason": "tool_use",
                                                          "usage": usage})
                add(run, at + 1, "tool_started", tool_call_id=call, tool_name="bash", args={"command": "make"})
                add(run, at + 2, "tool_ended", tool_call_id=call, tool_name="bash", is_error=failed,
                    result={"content": [{"type": "text", "text": text}], "is_error": failed})
            # The last call is reported again, with another result.
            add(run, at + 2, "tool_ended", tool_call_id=call, tool_name="bash", is_error=failed,
                result={"content": [{"type": "text", "text": "another"}], "is_error": failed})
            add(run, at + 3, "run_ended", outcome="completed", new_messages=[])
    return "\n".join(found) + "\n"


def run(*arguments, **more):
    environment = os.environ | {"MIDCOURSE_HOME": str(scratch / "home")}
    done = subprocess.run([midcourse, *arguments], env=environment, capture_output=True, encoding="utf-8", **more)
    assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr)
    return done


# What is compared: SQL for the store, and SQL for the archive.
COMPARED = {
    "runs": ("SELECT count(*) FROM runs", "SELECT count(*) FROM runs"),
    "child runs": ("SELECT count(parent_run_id) FROM runs", "SELECT count(parent_run_id) FROM runs"),
    "calls": ("SELECT sum(calls) FROM runs", "SELECT sum(calls) FROM runs"),
    "errors": ("SELECT sum(errors) FROM runs", "SELECT sum(errors) FROM runs"),
    "starts": ("SELECT sum(started) FROM runs", "SELECT sum(epoch_ms(started)) FROM runs"),
    "ends": ("SELECT sum(ended) FROM runs", "SELECT sum(epoch_ms(ended)) FROM runs"),
    "input tokens": ("SELECT sum(input_tokens) FROM summaries", "SELECT sum(input_tokens) FROM runs"),
    "output tokens": ("SELECT sum(output_tokens) FROM summaries", "SELECT sum(output_tokens) FROM runs"),
    "cached tokens": ("SELECT sum(cache_read_tokens) FROM summaries", "SELECT sum(cache_read_tokens) FROM runs"),
    "tasks": ("SELECT sum(length(CAST(task AS BLOB))) FROM summaries", "SELECT sum(strlen(task)) FROM runs"),
    "last links": ("SELECT group_concat(h, ',') FROM (SELECT hex(head) AS h FROM runs ORDER BY run_id)",
                   "SELECT string_agg(hex(link), ',' ORDER BY run_id) FROM runs"),
    "records": ("SELECT count(*) FROM records", "SELECT count(*) FROM records"),
    "record times": ("SELECT sum(at) FROM records", "SELECT sum(epoch_ms(recorded_at)) FROM records"),
    "failed calls": ("SELECT sum(failed) FROM records", "SELECT count(*) FROM records WHERE failed"),
    "payload bytes": ("SELECT sum(length(CAST(payload AS BLOB))) FROM records", "SELECT sum(strlen(payload)) FROM records"),
    "fact bytes": ("SELECT sum(length(CAST(fact AS BLOB))) FROM records", "SELECT sum(strlen(fact)) FROM records"),
    "tool calls": ("SELECT count(*) FROM records WHERE kind = 'tool_ended'",
                   "SELECT count(*) FROM records WHERE kind = 'tool_ended' AND tool = 'bash'"),
    "reports": ("SELECT count(*) FROM reports", "SELECT count(*) FROM reports"),
    "references to texts": ("SELECT count(*) FROM record_bodies", "SELECT sum(len(texts)) FROM records"),
    "texts": ("SELECT count(*) FROM bodies", "SELECT count(DISTINCT hash) FROM bodies"),
    "bytes of referenced texts": (
        "SELECT sum(length) FROM record_bodies JOIN bodies ON bodies.id = body",
        "SELECT sum(strlen(text)) FROM (SELECT part, unnest(texts, recursive := true) FROM records) AS record "
        "JOIN bodies USING (part, text_id)"),
}

run("record", input=lines())
summary = json.loads(run("archive", "--older-than", "1d", "--to", str(archive), "--json").stdout)
run("import", str(archive))
store = sqlite3.connect(f"file:{scratch / 'home' / 'store.db'}?mode=ro", uri=True)
duck = duckdb.connect()
for table in ("runs", "records", "reports", "bodies"):
    duck.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{archive}/{table}/*/*.parquet')")
wrong = 0
for name, (in_store, in_archive) in COMPARED.items():
    expected, found = store.execute(in_store).fetchone()[0], duck.execute(in_archive).fetchone()[0]
    is_equal = expected == found and expected is not None
    wrong += not is_equal
    shown = f"{str(found)[:20]}…" if name == "last links" else found
    print(f"{'ok  ' if is_equal else 'FAIL'} {name}: {shown}" + ("" if is_equal else f", in the store {expected}"))
days = duck.execute(f"SELECT count(DISTINCT day) FROM read_parquet('{archive}/runs/*/*.parquet', "
                    "hive_partitioning = true)").fetchone()[0]
assert days == 4, f"{days} days"
assert summary["runs"] == 12, summary

queries = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
assert len(queries) >= 3, f"{page} has {len(queries)} queries"
os.chdir(archive)
queried = duckdb.connect()
for query in queries:
    rows = queried.execute(query).fetchall()
    print(f"ok   {len(rows)} rows: {query.strip().splitlines()[0]}")
    assert rows or query.lstrip().startswith(("CREATE", "SET")), query
    if os.environ.get("MIDCOURSE_DUCKDB_SHOW"):
        print(queried.sql(query) if query.lstrip().startswith("SELECT") else "")
sys.exit(1 if wrong else 0)
