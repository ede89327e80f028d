"""Sends one run to a trace server as OpenTelemetry spans, over OTLP/HTTP.

    spans.py URL [--header NAME=VALUE] < LINES

LINES are the lines for `midcourse record` from which the store of the benchmark is made, so every viewer shows the same
run: the run and its subagents are AGENT spans, a turn is a CHAIN span, a call with its result a TOOL span and a message
an LLM span, with the attributes of OpenInference. Prints the trace id and the number of spans as JSON. Needs the package
opentelemetry-proto.
"""

import hashlib
import json
import sys
import time
import urllib.error
import urllib.request

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SPANS_PER_REQUEST = 500


def span_id(text):
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def attribute(name, value):
    return KeyValue(key=name, value=AnyValue(string_value=value))


class Trace:
    """Builds the spans of a run from its lines."""

    def __init__(self):
        self.spans, self.open, self.turn, self.last = [], {}, {}, {}
        self.trace_id = None

    def add(self, run, key, name, kind, at, parent):
        span = Span(trace_id=self.trace_id, span_id=span_id(f"{run} {key}"), name=name, kind=Span.SPAN_KIND_INTERNAL)
        if parent:
            span.parent_span_id = parent.span_id
        span.start_time_unix_nano = span.end_time_unix_nano = at
        span.attributes.append(attribute("openinference.span.kind", kind))
        self.spans.append(span)
        return span

    def line(self, number, line):
        run, at, payload = line["run_id"], line["recorded_at_unix_ms"] * 1_000_000, line["payload"]
        if self.trace_id is None:
            self.trace_id = hashlib.blake2b(run.encode(), digest_size=16).digest()
        if run not in self.open:
            parent = self.last.get(line.get("parent_run_id"))
            self.open[run] = {"": self.add(run, "run", run, "AGENT", at, parent)}
        spans = self.open[run]
        root = spans[""]
        root.end_time_unix_nano = at
        parent = self.turn.get(run, root)
        parent.end_time_unix_nano = at
        match payload["kind"]:
            case "turn_started":
                self.turn[run] = self.add(run, number, "turn", "CHAIN", at, root)
            case "message_appended":
                message = payload["message"]
                text = message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
                span = self.add(run, number, message["role"], "LLM", at, parent)
                span.attributes.append(attribute("output.value", text))
            case "tool_started":
                span = self.add(run, number, payload["tool_name"], "TOOL", at, parent)
                span.attributes.extend([
                    attribute("tool.name", payload["tool_name"]),
                    attribute("input.value", json.dumps(payload["args"])),
                    attribute("input.mime_type", "application/json"),
                ])
                spans[payload["tool_call_id"]] = self.last[run] = span
            case "tool_ended":
                span = spans.pop(payload["tool_call_id"])
                span.end_time_unix_nano = at
                span.attributes.append(attribute("output.value", payload["result"]["content"][0]["text"]))
                span.status.code = Status.STATUS_CODE_ERROR if payload["is_error"] else Status.STATUS_CODE_OK


def send(request):
    """Sends a request, again and again while the server says that its queue is full, as exporters do."""
    while True:
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                response.read()
                return
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise
            time.sleep(1)


def main():
    headers = dict(value.split("=", 1) for value in sys.argv[3::2])
    trace = Trace()
    for number, line in enumerate(sys.stdin):
        trace.line(number, json.loads(line))
    for start in range(0, len(trace.spans), SPANS_PER_REQUEST):
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.extend(trace.spans[start : start + SPANS_PER_REQUEST])
        sent = urllib.request.Request(sys.argv[1], data=request.SerializeToString(), method="POST",
                                      headers={"Content-Type": "application/x-protobuf", **headers})
        send(sent)
    print(json.dumps({"trace_id": trace.trace_id.hex(), "spans": len(trace.spans)}))


main()
