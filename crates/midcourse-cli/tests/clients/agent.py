"""A small agent that uses one of the official Python packages: agent.py openai|anthropic TASK

It offers the model a shell and runs until a response has no tool call; then it prints the last
message. The package takes the model's address and the API key from the environment. If AGENT_SENT
names a folder, the body of each request is written to a file there. On an API error the agent
prints its name and status to standard error and exits with code 3.
"""

import argparse, importlib, itertools, json, os, pathlib, subprocess, sys

import httpx2

SYSTEM = "You work in a shell."
DESCRIPTION = "Runs a command in a shell."
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


class Cut(Exception):
    """The stream ended before the response was complete, and the package did not notice."""


class Agent:
    def __init__(self, client, options):
        self.client, self.stream, self.messages = client, options.stream, [*self.FIRST_MESSAGES]
        self.common = {"model": options.model, "messages": self.messages}
        if not options.chat:
            self.common["tools"] = [self.TOOL]

    def add_user_message(self, text):
        self.messages.append({"role": "user", "content": text})

    def work(self):
        """Sends requests and makes the tool calls of each response until one has none."""
        while True:
            text, calls = self.request()
            if not calls:
                return text
            self.add_results([(id, *run(tool, arguments)) for id, tool, arguments in calls])


class OpenAI(Agent):
    TOOL = {"type": "function", "function": {
        "name": "shell", "description": DESCRIPTION, "parameters": SCHEMA}}
    FIRST_MESSAGES = [{"role": "system", "content": SYSTEM}]

    def request(self):
        """Returns the text of the response, and its calls: id, tool, arguments."""
        text, calls = self.streamed() if self.stream else self.whole()
        return text or "", [(id, tool, json.loads(words or "{}")) for id, tool, words in calls]

    def whole(self):
        message = self.client.chat.completions.create(**self.common).choices[0].message
        self.messages.append(message)
        calls = message.tool_calls or []
        return message.content, [(it.id, it.function.name, it.function.arguments) for it in calls]

    def streamed(self):
        text, calls, reason = "", {}, None
        self.common |= {"stream": True, "stream_options": {"include_usage": True}}
        for chunk in self.client.chat.completions.create(**self.common):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
                for delta in choice.delta.tool_calls or []:
                    call = calls.setdefault(delta.index, ["", "", ""])
                    call[0] += delta.id or ""
                    call[1] += delta.function.name or ""
                    call[2] += delta.function.arguments or ""
        if reason is None:
            raise Cut
        self.messages.append({"role": "assistant", "content": text or None})
        if calls:
            self.messages[-1]["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": tool, "arguments": words}}
                for id, tool, words in calls.values()]
        return text, list(calls.values())

    def add_results(self, results):
        for id, text, code in results:
            text += f"\nexit code {code}" if code else ""
            self.messages.append({"role": "tool", "tool_call_id": id, "content": text})


class Anthropic(Agent):
    TOOL = {"name": "shell", "description": DESCRIPTION, "input_schema": SCHEMA}
    FIRST_MESSAGES = []

    def request(self):
        """Returns the text of the response, and its calls: id, tool, arguments."""
        body = {"max_tokens": 4096, "system": SYSTEM, **self.common}
        if self.stream:
            with self.client.messages.stream(**body) as stream:
                response = stream.get_final_message()
        else:
            response = self.client.messages.create(**body)
        if response.stop_reason is None:
            raise Cut
        self.messages.append({"role": "assistant", "content": response.content})
        text = "".join(block.text for block in response.content if block.type == "text")
        calls = [block for block in response.content if block.type == "tool_use"]
        return text, [(call.id, call.name, call.input) for call in calls]

    def add_results(self, results):
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text}
                  | ({"is_error": True} if code else {}) for id, text, code in results]
        self.messages.append({"role": "user", "content": blocks})


def run(tool, arguments):
    """Makes a tool call; returns its output and exit code."""
    if tool != "shell" or not isinstance(arguments.get("command"), str):
        return "There is no such tool, or its arguments are wrong.", 127
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(arguments["command"], shell=True, timeout=60, **both)
    except subprocess.TimeoutExpired:
        return "Timed out.", 124
    return done.stdout.decode(errors="replace"), done.returncode


parser = argparse.ArgumentParser()
parser.add_argument("package", choices=["openai", "anthropic"])
parser.add_argument("--stream", action="store_true")
parser.add_argument("--chat", action="store_true", help="no tools, and two user messages")
parser.add_argument("--model", default="scripted")
parser.add_argument("task")
options = parser.parse_args()
package, numbers = importlib.import_module(options.package), itertools.count(1)


def keep(request):
    if request.method == "POST":
        path = pathlib.Path(os.environ["AGENT_SENT"], f"{next(numbers):04}.json")
        path.write_bytes(request.content)


hooks = {"request": [keep] if os.environ.get("AGENT_SENT") else []}
http = package.DefaultHttpxClient(event_hooks=hooks)
try:
    kind = OpenAI if options.package == "openai" else Anthropic
    agent = kind(getattr(package, kind.__name__)(http_client=http), options)
    agent.add_user_message(options.task)
    text = agent.work()
    if options.chat:
        agent.add_user_message("go on")
        text = agent.work()
except (package.APIError, httpx2.HTTPError, Cut) as error:
    print(type(error).__name__, getattr(error, "status_code", None), file=sys.stderr)
    sys.exit(3)
print(text)
