#!/usr/bin/env python3
"""Plays the network around an agent, on loopback: a company's proxy, the model hosts behind it, and two gateways.

    network.py FOLDER [--script FILE]

Writes FOLDER/ready.json once it listens:
    proxy        address of an HTTP proxy (CONNECT). It ends TLS itself, as any host that the client names.
    ca           file with the certificate authority that signs for these hosts
    gateway_one  address of a plain HTTP server, without /v1
    gateway_two  address of another one
Behind all of them is one scripted model with four APIs: Chat Completions, Messages, Responses and Gemini's
generateContent, streamed or not.
FOLDER/requests.jsonl gets one line per request and per CONNECT. Ends on SIGTERM.

A script is a list of turns, a turn is a list of {"text": …} and {"call": NAME, "args": {…}}. The n-th model request gets
turn n; after the last turn, the last one again. If the script has calls, a request without tools is a side request of
the agent (for a title, say); else one to a small model is. It gets a fixed text and no turn.

In auto mode, Claude Code has tool calls checked before it runs them: by the vendor's host, which adds verdicts to its
responses if the request asks for them, or by model requests of its own, which get no turn. All calls are allowed but those
with "denied": REASON. The client's own check has a second stage for calls that the first does not allow. With
"doubted": true, the second stage allows the call.
"""
import argparse
import base64
import gzip
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAILING_COMMAND = "cat missing.txt"
WORKING_COMMAND = "echo it works"
FINAL_TEXT = "All done."
SIDE_TEXT = "A title"
DENIED_RULE = "Code from External"
CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
CREATED = 1780000000


def bash_call(command):
    return {"call": "bash", "args": {"command": command}}


def failing_script(call=bash_call):
    """Four times the same failing command, then one that works, then the end. `call` makes a tool call of a command."""
    return [[call(FAILING_COMMAND)] for _ in range(4)] + [[call(WORKING_COMMAND)], [{"text": FINAL_TEXT}]]


class Certificates:
    """A certificate authority for one test run, and a TLS configuration per host."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.contexts = {}
        self.ca = folder / "ca.pem"
        config = folder / "ca.conf"
        config.write_text(
            "[req]\ndistinguished_name=name\nprompt=no\nx509_extensions=ca\n[name]\nCN=Test company\n"
            "[ca]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
        )
        self.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -config ca.conf -keyout ca.key -out ca.pem")
        self.openssl("ecparam -genkey -name prime256v1 -noout -out leaf.key")

    def openssl(self, arguments):
        subprocess.run(["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True)

    def context(self, host):
        with self.lock:
            if host not in self.contexts:
                self.contexts[host] = self.create(host)
            return self.contexts[host]

    def create(self, host):
        name = re.sub(r"[^A-Za-z0-9.-]", "_", host)
        kind = "IP" if re.fullmatch(r"[0-9.]+|.*:.*", host) else "DNS"
        (self.folder / f"{name}.ext").write_text(
            f"subjectAltName={kind}:{host}\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        self.openssl(f"req -new -key leaf.key -subj /CN={name[:60]} -out {name}.csr -config ca.conf")
        self.openssl(f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 30 -extfile {name}.ext -out {name}.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / "leaf.key")
        context.set_alpn_protocols(["http/1.1"])
        return context

    def accept(self, connection, host):
        """TLS as `host`, or as the host that the client names in its handshake. Returns socket and host."""
        named = [host]

        def choose(tls, name, _):
            if name:
                named[0] = name
                tls.context = self.context(name)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        first = self.folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', host)}.pem"
        self.context(host)
        context.load_cert_chain(first, self.folder / "leaf.key")
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = choose
        return context.wrap_socket(connection, server_side=True), named[0]


class SafetyCheck:
    """Plays the safety check of Claude Code's auto mode, as 2.1.325 expects it."""

    def __init__(self, script):
        self.calls = [item for turn in script for item in turn if "call" in item]

    @staticmethod
    def action(request):
        """The call that a request of the client wants to have checked, as JSON, or None for any other request.

        The request is one user message: "<transcript>", the user's prompts and the earlier calls, the call in question,
        "</transcript>", instructions. After a subagent, {"user": …} in the place of a call asks to check all of its calls.
        """
        content = [message.get("content") for message in request.get("messages") or []]
        blocks = [block for blocks in content if isinstance(blocks, list) for block in blocks]
        texts = [block.get("text") for block in blocks if isinstance(block, dict)]
        if request.get("tools") or "<transcript>\n" not in texts or "</transcript>\n" not in texts:
            return None
        return texts[texts.index("</transcript>\n") - 1]

    def verdict(self, request, action):
        """The text of the response, and its stop sequence. The first stage stops at one, the second may think.

        The check of a single call wants <block>yes or <block>no, the check of a subagent's work a number up to 100.
        """
        name, shown = next(iter(json.loads(action).items()))
        call = next((item for item in self.calls if item["call"] == name and item["args"].get("command") == shown), {})
        stop = next(iter(request.get("stop_sequences") or []), None)
        is_blocked = "denied" in call or bool(stop) and "doubted" in call
        if "<severity>" in request["messages"][-1]["content"][-1]["text"]:
            tag, value = "severity", "80" if is_blocked else "10"
        else:
            tag, value = "block", "yes" if is_blocked else "no"
        if stop:
            return f"<{tag}>{value}", stop
        reason = f"<category>{DENIED_RULE}</category><reason>{call['denied']}</reason>" if is_blocked else ""
        return f"<thinking>I looked at the rules.</thinking><{tag}>{value}</{tag}>{reason}", None

    @staticmethod
    def results(request, blocks, turn):
        """What the vendor's host adds to a response if the request asks it to check the calls, else nothing."""
        if not any(entry.get("type") == "dangerous_tool_use" for entry in request.get("safeguards") or []):
            return {}
        verdicts = {
            block["id"]: {"type": "evaluated", "outcome": "flagged", "explanation": item["denied"]}
            if "denied" in item
            else {"type": "evaluated", "outcome": "not_flagged"}
            for block, item in zip(blocks, turn)
            if block["type"] == "tool_use"
        }
        return {"safeguard_results": [{"type": "dangerous_tool_use", "status": {"type": "available", "tool_uses": verdicts}}]}


class Model:
    """The scripted model: which turn a request gets, and how each API writes it."""

    def __init__(self, script):
        self.script = script
        self.safety_check = SafetyCheck(script)
        self.has_calls = any("call" in item for turn in script for item in turn)
        self.lock = threading.Lock()
        self.requests = 0

    def next_turn(self, request):
        """The number of this request and its turn. Side requests have the number 0."""
        if self.has_calls:
            is_side_request = not request.get("tools") and not request.get("functions")
        else:
            is_side_request = any(size in request.get("model", "") for size in ("mini", "nano", "haiku"))
        if is_side_request:
            return 0, [{"text": SIDE_TEXT}]
        with self.lock:
            self.requests += 1
            return self.requests, self.script[min(self.requests, len(self.script)) - 1]


def chat(request, number, turn):
    """Chat Completions: the response, and the events of the streamed one."""
    text = "".join(item.get("text", "") for item in turn) or None
    calls = [
        {"id": f"call_{number:04}_{k}", "type": "function", "function": {"name": item["call"], "arguments": json.dumps(item["args"])}}
        for k, item in enumerate(turn)
        if "call" in item
    ]
    usage = {
        "prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0},
    }
    finish = "tool_calls" if calls else "stop"
    head = {"id": f"chatcmpl-{number:04}", "created": CREATED, "model": request.get("model")}
    message = {"role": "assistant", "content": text, "refusal": None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    response = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def chunk(choices, **more):
        return None, {**head, "object": "chat.completion.chunk", "choices": choices, **more}

    def delta(content, finish=None):
        return chunk([{"index": 0, "delta": content, "logprobs": None, "finish_reason": finish}])

    events = [delta({"role": "assistant", "content": "" if text else None})]
    if text:
        events += [delta({"content": part}) for part in (text[:4], text[4:]) if part]
    for k, call in enumerate(calls):
        function = call["function"]
        events.append(delta({"tool_calls": [{"index": k, **call, "function": {"name": function["name"], "arguments": ""}}]}))
        events.append(delta({"tool_calls": [{"index": k, "function": {"arguments": function["arguments"]}}]}))
    events.append(delta({}, finish))
    if (request.get("stream_options") or {}).get("include_usage"):
        events.append(chunk([], usage=usage))
    return response, [*events, (None, "[DONE]")]


def messages(request, number, turn, is_vendor=False, stop_sequence=None):
    """Messages: the response, and the events of the streamed one."""
    blocks = [
        {"type": "text", "text": item["text"]}
        if "text" in item
        else {"type": "tool_use", "id": f"toolu_{number:04}_{k}", "name": item["call"], "input": item["args"]}
        for k, item in enumerate(turn)
    ]
    stop = "tool_use" if any("call" in item for item in turn) else "stop_sequence" if stop_sequence else "end_turn"
    results = SafetyCheck.results(request, blocks, turn) if is_vendor else {}
    usage = {"input_tokens": 500, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 20}
    response = {
        "id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": request.get("model"),
        "content": blocks, "stop_reason": stop, "stop_sequence": stop_sequence, "usage": usage, **results,
    }

    def event(kind, **data):
        return kind, {"type": kind, **data}

    start = {**response, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    start.pop("safeguard_results", None)
    events = [event("message_start", message=start), event("ping")]
    for k, block in enumerate(blocks):
        if block["type"] == "text":
            empty, parts = {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        else:
            empty, text = {**block, "input": {}}, json.dumps(block["input"])
            parts = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:5], text[5:])]
        events.append(event("content_block_start", index=k, content_block=empty))
        events += [event("content_block_delta", index=k, delta=part) for part in parts]
        events.append(event("content_block_stop", index=k))
    events.append(event("message_delta", delta={"stop_reason": stop, "stop_sequence": stop_sequence, **results}, usage={"output_tokens": 20}))
    return response, [*events, event("message_stop")]


def responses(request, number, turn):
    """Responses: the response, and the events of the streamed one."""
    output = []
    for k, item in enumerate(turn):
        if "text" in item:
            content = [{"type": "output_text", "text": item["text"], "annotations": [], "logprobs": []}]
            output.append({"type": "message", "id": f"msg_{number:04}_{k}", "status": "completed", "role": "assistant", "content": content})
        else:
            output.append({
                "type": "function_call", "id": f"fc_{number:04}_{k}", "call_id": f"call_{number:04}_{k}",
                "name": item["call"], "arguments": json.dumps(item["args"]), "status": "completed",
            })
    usage = {
        "input_tokens": 500, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 520,
    }
    response = {
        "id": f"resp_{number:04}", "object": "response", "created_at": CREATED, "status": "completed", "model": request.get("model"),
        "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": request.get("tools") or [],
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0,
        "usage": usage,
    }
    events = []

    def event(kind, **data):
        events.append((kind, {"type": kind, "sequence_number": len(events), **data}))

    start = {**response, "status": "in_progress", "output": [], "usage": None}
    event("response.created", response=start)
    event("response.in_progress", response=start)
    for k, item in enumerate(output):
        place = {"item_id": item["id"], "output_index": k}
        if item["type"] == "message":
            part = item["content"][0]
            event("response.output_item.added", output_index=k, item={**item, "status": "in_progress", "content": []})
            event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            event("response.output_text.delta", **place, content_index=0, delta=part["text"], logprobs=[])
            event("response.output_text.done", **place, content_index=0, text=part["text"], logprobs=[])
            event("response.content_part.done", **place, content_index=0, part=part)
        else:
            event("response.output_item.added", output_index=k, item={**item, "status": "in_progress", "arguments": ""})
            event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            event("response.function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"])
        event("response.output_item.done", output_index=k, item=item)
    event("response.completed", response=response)
    return response, events


def gemini(request, number, turn):
    """Gemini's generateContent: the response, which is also the only event of the streamed one."""
    # A side request asks for JSON.
    turn = turn if number else [{"text": "{}"}]
    parts = [{"functionCall": {"name": item["call"], "args": item["args"]}} if "call" in item else {"text": item["text"]} for item in turn]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 500, "candidatesTokenCount": 20, "totalTokenCount": 520}
    response = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro", "responseId": f"response-{number:04}"}
    return response, [(None, response)]


APIS = {
    "/v1/chat/completions": chat, "/v1/messages": messages, "/v1/responses": responses,
    ":generateContent": gemini, ":streamGenerateContent": gemini,
}


class Handler(BaseHTTPRequestHandler):
    """One connection to any of the servers. `server` has: name, certificates, model, log."""

    protocol_version = "HTTP/1.1"
    # Where the requests of this connection go, inside a tunnel: (scheme, host, port).
    tunnel = None

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        host, _, port = self.path.rpartition(":")
        host = host.strip("[]")
        self.server.log(
            kind="connect", server=self.server.name, host=host, port=int(port),
            proxy_credential=self.headers.get("proxy-authorization"),
        )
        self.send_response(200, "Connection established")
        self.end_headers()
        scheme = "http"
        try:
            if self.connection.recv(1, socket.MSG_PEEK) == b"\x16":
                self.connection, host = self.server.certificates.accept(self.connection, host)
                scheme = "https"
        except OSError as error:
            self.server.log(kind="handshake", host=host, port=int(port), error=str(error))
            self.close_connection = True
            return
        self.request = self.connection
        self.setup()
        self.tunnel = (scheme, host, int(port))
        self.close_connection = False

    def body(self):
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def decoded(self, body):
        encoding = (self.headers.get("content-encoding") or "").lower()
        if encoding == "gzip":
            body = gzip.decompress(body)
        elif encoding == "zstd":
            body = subprocess.run(["zstd", "-dc"], input=body, capture_output=True, check=True).stdout
        return json.loads(body)

    def respond(self):
        body = self.body()
        named = self.headers.get("host") or ""
        scheme, host, port = self.tunnel or ("http", named.partition(":")[0], int(named.partition(":")[2] or 80))
        path = re.sub(r"^https?://[^/]*", "", self.path)
        entry = {
            "kind": "request", "server": self.server.name, "scheme": scheme, "host": host, "port": port, "host_header": named,
            "method": self.command, "path": path, "headers": list(self.headers.items()),
            "credentials": {name: self.headers[name] for name in CREDENTIALS if name in self.headers},
            "content_type": self.headers.get("content-type"), "content_encoding": self.headers.get("content-encoding"),
            "body": base64.b64encode(body).decode(),
        }
        status, response, events = 404, {"type": "error", "error": {"type": "not_found_error", "message": f"no {path} at {host}"}}, None
        bare_path = path.partition("?")[0]
        if "upgrade" in self.headers:
            status = 426
        elif self.command in ("GET", "HEAD") and bare_path.endswith("/v1/models"):
            models = [{"id": "gpt-4.1", "type": "model", "object": "model", "created": CREATED, "owned_by": "openai", "display_name": "4.1"}]
            status, response = 200, {"object": "list", "data": models, "has_more": False, "first_id": "gpt-4.1", "last_id": "gpt-4.1"}
        elif self.command == "POST" and bare_path.endswith("/v1/messages/count_tokens"):
            status, response = 200, {"input_tokens": 100}
        elif self.command == "POST" and bare_path.endswith(":countTokens"):
            status, response = 200, {"totalTokens": 100}
        elif self.command == "POST":
            api = next((api for suffix, api in APIS.items() if bare_path.endswith(suffix)), None)
            if api:
                request, model, options = self.decoded(body), self.server.model, {}
                if action := SafetyCheck.action(request):
                    text, stop = model.safety_check.verdict(request, action)
                    entry["turn"], turn = 0, [{"text": text}]
                    entry["safety_check"], options = text, {"stop_sequence": stop}
                else:
                    entry["turn"], turn = model.next_turn(request)
                    # Gateways do not know this.
                    options = {"is_vendor": self.server.name == "proxy"} if api is messages else {}
                entry["api"] = api.__name__
                status, (response, events) = 200, api(request, entry["turn"], turn, **options)
                if not (request.get("stream") or "stream" in bare_path.rpartition(":")[2]):
                    events = None
        self.server.log(**entry, status=status)
        self.send_response(status)
        if events is None:
            data = json.dumps(response).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
            return
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for kind, data in events:
            data = data if isinstance(data, str) else json.dumps(data)
            text = (f"event: {kind}\n" if kind else "") + f"data: {data}\n\n"
            self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = respond


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, name, certificates, model, log):
        super().__init__(("127.0.0.1", 0), Handler)
        self.name, self.certificates, self.model, self.log = name, certificates, model, log
        self.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A client that hangs up is no error of this server."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--script", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    shutil.rmtree(folder / "tls", ignore_errors=True)
    (folder / "tls").mkdir(parents=True)
    certificates = Certificates(folder / "tls")
    model = Model(json.loads(arguments.script.read_text()) if arguments.script else failing_script())
    lock = threading.Lock()
    with open(folder / "requests.jsonl", "w") as file:

        def log(**entry):
            with lock:
                file.write(json.dumps(entry) + "\n")
                file.flush()

        servers = [Server(name, certificates, model, log) for name in ("proxy", "gateway_one", "gateway_two")]
        ready = {"ca": str(certificates.ca), **{server.name: server.address for server in servers}}
        partial = folder / "ready.json.new"
        partial.write_text(json.dumps(ready))
        partial.rename(folder / "ready.json")
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    # Before any thread starts, so that only `sigwait` gets these signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
