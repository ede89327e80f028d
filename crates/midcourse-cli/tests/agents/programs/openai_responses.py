"""An agent written with the package `openai`, on the Responses API. With `--model chained`, the server keeps the conversation."""
import argparse
import json
import subprocess

from dotenv import load_dotenv
from openai import OpenAI

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--base-url")
parser.add_argument("--model")
options = parser.parse_args()
client = OpenAI(base_url=options.base_url)
parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": False}
tools = [{"type": "function", "name": "bash", "description": "Run a shell command.", "parameters": parameters, "strict": True}]


def bash(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}\nProcess exited with code {done.returncode}"


is_chained = options.model == "chained"
items = [{"role": "user", "content": options.task}]
previous = {}
while True:
    response = client.responses.create(model="gpt-4.1", input=items, tools=tools, store=is_chained, **previous)
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    if is_chained:
        items, previous = [], {"previous_response_id": response.id}
    for call in calls:
        if not is_chained:
            items.append({"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments})
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": bash(**json.loads(call.arguments))})
print(response.output_text)
