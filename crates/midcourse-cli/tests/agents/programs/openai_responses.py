"""An agent written with the package `openai`, on the Responses API."""
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
parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": False}
tools = [{"type": "function", "name": "bash", "description": "Run a shell command.", "parameters": parameters, "strict": True}]


def bash(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}\nProcess exited with code {done.returncode}"


items = [{"role": "user", "content": options.task}]
while True:
    response = client.responses.create(model="gpt-4.1", input=items, tools=tools, store=False)
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    for call in calls:
        items.append({"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments})
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": bash(**json.loads(call.arguments))})
print(response.output_text)
