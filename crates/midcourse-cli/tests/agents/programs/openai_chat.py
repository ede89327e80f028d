"""An agent written with the package `openai`, on Chat Completions, streamed."""
import argparse
import json
import subprocess

from dotenv import load_dotenv
from openai import OpenAI

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--base-url")
options = parser.parse_args()
client = OpenAI(base_url=options.base_url)
parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "function": {"name": "bash", "description": "Run a shell command.", "parameters": parameters}}]


def bash(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}Exit code: {done.returncode}"


messages = [{"role": "user", "content": options.task}]
while True:
    with client.chat.completions.stream(model="gpt-4.1", messages=messages, tools=tools, stream_options={"include_usage": True}) as stream:
        message = stream.get_final_completion().choices[0].message
    if not message.tool_calls:
        break
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in message.tool_calls
    ]
    messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
    for call in message.tool_calls:
        result = bash(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
