"""An agent written with the package `anthropic`, streamed. It does not mark failed results with `is_error`."""
import argparse
import subprocess

from anthropic import Anthropic
from dotenv import load_dotenv

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--base-url")
options = parser.parse_args()
client = Anthropic(base_url=options.base_url)
schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"name": "bash", "description": "Run a shell command.", "input_schema": schema}]


def bash(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    output = done.stdout + done.stderr
    return output if done.returncode == 0 else f"Command failed with exit code {done.returncode}\n{output}"


messages = [{"role": "user", "content": options.task}]
while True:
    with client.messages.stream(model="claude-sonnet-4-5", max_tokens=1000, messages=messages, tools=tools) as stream:
        response = stream.get_final_message()
    messages.append({"role": "assistant", "content": [block.model_dump(mode="json", include={"type", "text", "id", "name", "input"}) for block in response.content]})
    calls = [block for block in response.content if block.type == "tool_use"]
    if not calls:
        break
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": bash(**call.input)} for call in calls]})
print("".join(block.text for block in response.content))
