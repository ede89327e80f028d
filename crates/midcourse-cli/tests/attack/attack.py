#!/usr/bin/env python3
"""Attacks the built command from outside, for as long as you like, and counts.

    attack.py [kills N] [payloads N] [damage N] [files N] [proxy N] [--midcourse PATH] [--seed N]

Without a name, every attack runs with a small number. Each attack states one promise, tries to break it with random
input, prints how often it tried, and exits with 1 at the first time that the promise does not hold, with the case kept
in a folder that it names. The same seed makes the same input; what other processes do at the same time is not repeatable.
Secrets have a measurement of their own: `crates/midcourse/examples/redaction_corpus.rs`.
"""
import argparse
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
CAPTURES = ROOT / "testdata" / "captures"
HOSTS = {"claude-code": "claude-code", "codex": "codex", "qwen": "qwen", "gemini": "gemini", "copilot": "copilot", "opencode": "opencode"}
SMALL = {"kills": 40, "payloads": 300, "damage": 40, "files": 200, "proxy": 100}


class Broken(Exception):
    """A promise does not hold."""


def run(binary, home, *args, stdin=b"", timeout=60):
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "MIDCOURSE_HOME": str(home / "data"), "TZ": "UTC"}
    done = subprocess.run([binary, *args], input=stdin, capture_output=True, env=env, timeout=timeout)
    if b"panicked at" in done.stderr or done.returncode < 0:
        raise Broken(f"{args} crashed: {done.returncode} {done.stderr[-400:]!r}")
    return done


def mutate(data, rng):
    """Changes some bytes: flips, cuts, repetitions, numbers out of range, other types, invalid UTF-8."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : at + rng.choice([1, 3, 50, 5000])]
        elif kind == 2:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 40])))
        elif kind == 3:
            data[at:at] = rng.choice([b"null", b"{}", b"[[[[", b"1e999", b"-0", b'"\\ud800"', b"\x00", b"\xff\xfe", b"true"])
        elif kind == 4:
            data[at:at] = data[max(0, at - 60) : at] * rng.choice([1, 30])
        elif kind == 5:
            data = data.replace(rng.choice([b'"', b"{", b":", b"Bash", b"tool"]), rng.choice([b"", b"[", b"1", b"'"]), 1)
        else:
            data[at:at] = rng.choice([b"9" * 40, b"a" * 70000, b"\xf0\x9f\x98\x80" * 100, b"[" * 3000])
    return bytes(data)


def kills(binary, home, count, rng):
    """Every acknowledged event of a killed writer is stored at the place that the reply names."""
    acked, killed = [], 0
    while killed < count:
        writers = []
        for _ in range(min(4, count - killed)):
            name = f"w{killed}-{len(writers)}"
            events = "".join(
                json.dumps({"run_id": f"r{killed % 7}", "payload": {
                    "kind": "tool_ended", "tool_call_id": f"{name}-{n}", "tool_name": "bash", "is_error": True,
                    "result": {"content": [{"type": "text", "text": "no rule " * (n * 30)}]}}}) + "\n"
                for n in range(60))
            env = {"PATH": os.environ["PATH"], "MIDCOURSE_HOME": str(home / "data")}
            writer = subprocess.Popen([binary, "record", "--busy-timeout", "60000"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
            threading.Thread(target=feed, args=(writer, events.encode()), daemon=True).start()
            writers.append((name, writer, rng.randrange(40)))
        for name, writer, after in writers:
            lines = [writer.stdout.readline() for _ in range(after)]
            time.sleep(rng.random() * 0.01)
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().splitlines(keepends=True)
            writer.wait()
            killed += 1
            for n, line in enumerate(line for line in lines if line.endswith(b"}\n")):
                reply = json.loads(line)
                if "seq" in reply:
                    acked.append((reply["run_id"], reply["seq"], f"{name}-{n}"))
    stored = {}
    for run_id in {run_id for run_id, _, _ in acked}:
        for line in run(binary, home, "export", run_id).stdout.splitlines():
            record = json.loads(line)
            stored[run_id, record["seq"]] = record["payload"].get("tool_call_id")
    lost = [event for event in acked if stored.get(event[:2]) != event[2]]
    if lost:
        raise Broken(f"{len(lost)} acknowledged events are not stored, first {lost[0]}")
    verified = run(binary, home, "verify")
    if verified.returncode:
        raise Broken(f"verify: {verified.stdout[-400:]!r}")
    return f"{killed} kills, {len(acked)} acknowledged events, none lost"


def feed(writer, data):
    try:
        writer.stdin.write(data)
        writer.stdin.close()
    except OSError:
        pass


def payloads(binary, home, count, rng):
    """Whatever a hook reads, it exits with 0, does not panic, and its reply neither blocks nor decides."""
    seeds = []
    for folder in sorted(CAPTURES.iterdir()):
        host = next((name for name in HOSTS if folder.name.startswith(name)), None)
        for file in sorted(folder.glob("*.jsonl")) if host else []:
            if "rollout" not in file.name:
                seeds += [(host, line) for line in file.read_bytes().splitlines() if line.strip()]
    replies = 0
    for n in range(count):
        host, payload = rng.choice(seeds)
        payload = mutate(payload, rng)
        (home / "payload").write_bytes(payload)
        done = run(binary, home, "hook", host, stdin=payload, timeout=30)
        if done.returncode != 0:
            raise Broken(f"hook {host} exits with {done.returncode}: {done.stderr[-300:]!r}")
        if done.stdout.strip():
            replies += 1
            reply = json.loads(done.stdout)
            text = json.dumps(reply)
            for word in ('"decision"', '"continue"', '"permissionDecision"', '"stopReason"'):
                if word in text:
                    raise Broken(f"hook {host} replies {text}")
    log = home / "data" / "hook.log"
    if log.exists() and b"panic" in log.read_bytes():
        raise Broken(f"a panic is in {log}")
    return f"{count} payloads of {len(set(host for host, _ in seeds))} hosts, {replies} replies, no failure"


def damage(binary, home, count, rng):
    """Damage in the files of a store is found: what `export` hands out with exit code 0 is what was recorded."""
    made = home / "made"
    env_home = home / "data"
    lines = "".join(json.dumps({"run_id": "r", "payload": {"kind": "message_appended", "message": {
        "role": "user", "content": f"message {n}: " + "".join(rng.choice("abcdef ") for _ in range(rng.choice([20, 300, 9000])))}}}) + "\n"
        for n in range(120)).encode()
    # Two writers, of which one keeps the log open, so that half of the records are in the log only.
    run(binary, home, "record", stdin=lines[: len(lines) // 2].rsplit(b"\n", 1)[0] + b"\n")
    holder = subprocess.Popen([binary, "tail", "-f", "r"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "MIDCOURSE_HOME": str(env_home)})
    time.sleep(0.5)
    rest = lines[len(lines[: len(lines) // 2].rsplit(b"\n", 1)[0]) + 1 :]
    run(binary, home, "record", stdin=rest)
    whole = run(binary, home, "export", "r").stdout
    shutil.copytree(env_home, made)
    holder.kill()
    holder.wait()
    found = refused = harmless = 0
    for n in range(count):
        shutil.rmtree(env_home)
        shutil.copytree(made, env_home)
        files = [file for file in (env_home / "store.db", env_home / "store.db-wal") if file.exists() and file.stat().st_size]
        file = rng.choice(files)
        data = bytearray(file.read_bytes())
        if rng.random() < 0.8:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            at, length = rng.randrange(len(data)), rng.choice([16, 512, 4096])
            data[at : at + length] = bytes(min(length, len(data) - at))
        file.write_bytes(data)
        verified = run(binary, home, "verify")
        exported = run(binary, home, "export", "r")
        if exported.returncode == 0 and exported.stdout != whole:
            # Records that are missing at the end are known to `verify`.
            if not (whole.startswith(exported.stdout) and verified.returncode == 1):
                shutil.copytree(env_home, home / "case")
                raise Broken(f"export hands out altered records with exit code 0: {home / 'case'}")
        if verified.returncode == 0 and exported.stdout != whole:
            raise Broken("verify finds nothing, but the export differs")
        found += verified.returncode != 0
        refused += exported.returncode != 0
        harmless += verified.returncode == 0
    return f"{count} damaged stores: verify found {found}, {harmless} had no effect, export refused {refused}, none altered"


def files(binary, home, count, rng):
    """No file makes a command that reads it crash."""
    seeds = [file.read_bytes()[:20000] for file in sorted((ROOT / "testdata").rglob("*")) if file.suffix in (".txt", ".jsonl")]
    seeds += [(ROOT / "docs" / "configuration.md").read_bytes()]
    commands = [("replay",), ("eval",), ("backtest",), ("import",), ("import", "--format", "events"), ("eval", str(ROOT / "testdata/scenarios/speech.txt"), "--config")]
    for n in range(count):
        case = home / "case"
        case.write_bytes(mutate(rng.choice(seeds), rng))
        args = rng.choice(commands)
        done = run(binary, home, *args, str(case))
        if done.returncode not in (0, 1):
            raise Broken(f"{args} exits with {done.returncode}: {done.stderr[-300:]!r}; {case}")
    return f"{count} files, no crash"


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        Echo.seen.append((self.command, self.path, body))
        reply = b'{"echo": %d}' % len(body)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_PUT = do_DELETE = do_PATCH = do_POST

    def log_message(self, *_):
        pass


def proxy(binary, home, count, rng):
    """What the proxy does not change on purpose reaches the server byte for byte."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    upstream = f"http://127.0.0.1:{server.server_port}"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "MIDCOURSE_HOME": str(home / "data")}
    process = subprocess.Popen([binary, "proxy", "--upstream", upstream], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    try:
        base = None
        while base is None:
            line = process.stdout.readline().decode()
            if "ANTHROPIC_BASE_URL=" in line:
                base = line.split("ANTHROPIC_BASE_URL=", 1)[1].strip().strip("'\"")
        address, _, path = base.removeprefix("http://").partition("/")
        seeds = [json.loads(line) for file in sorted((ROOT / "testdata" / "requests").glob("*.jsonl"))
                 for line in file.read_bytes().splitlines()[:6]]
        seeds = [json.dumps(seed.get("body", seed)).encode()[:200000] for seed in seeds]
        for n in range(count):
            body = rng.choice(seeds)
            body = mutate(body, rng) if rng.random() < 0.8 else body
            target = f"/{path}/" + rng.choice(["v1/messages", "v1/messages?beta=true", "v1/complete", "v1/files", "x/%2e%2e/y"])
            method = rng.choice(["POST", "POST", "PUT", "PATCH"])
            client = http.client.HTTPConnection(address, timeout=30)
            client.request(method, target, body, {"content-type": "application/json", "x-api-key": f"k{n}"})
            reply = client.getresponse()
            reply_body = reply.read()
            client.close()
            if reply.status != 200:
                raise Broken(f"status {reply.status} for {method} {target}: {reply_body[:200]!r}")
            got = Echo.seen.pop()
            # Every request is a new conversation, so no message of midcourse is due.
            if got[0] != method or got[2] != body:
                (home / "request").write_bytes(body)
                (home / "arrived").write_bytes(got[2])
                raise Broken(f"other bytes arrived: {home}")
    finally:
        process.kill()
        server.shutdown()
    return f"{count} requests, byte for byte"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", help="name and number, such as `kills 500`")
    parser.add_argument("--midcourse", default=str(next(ROOT.glob("target/*/debug/midcourse"), "midcourse")))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = dict(zip(options.attacks[::2], map(int, options.attacks[1::2]))) or SMALL
    for name, count in chosen.items():
        home = Path(tempfile.mkdtemp(prefix=f"attack-{name}-"))
        began = time.monotonic()
        try:
            result = {"kills": kills, "payloads": payloads, "damage": damage, "files": files, "proxy": proxy}[name](
                options.midcourse, home, count, random.Random(options.seed))
        except Broken as error:
            sys.exit(f"{name}: {error}\nkept in {home}")
        print(f"{name}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
