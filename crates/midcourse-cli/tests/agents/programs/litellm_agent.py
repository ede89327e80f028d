"""An agent written with LiteLLM. The model is given as `openai/NAME` or `anthropic/NAME`."""
import argparse
import json
import subprocess

from dotenv import load_dotenv

load_dotenv()
import litellm  # noqa: E402 (reads the environment when it is imported)

parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--model")
parser.add_argument("--base-url")
options = parser.parse_args()
parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "function": {"name": "bash", "description": "Run a shell command.", "parameters": parameters}}]


def bash(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"<output>{done.stdout}{done.stderr}</output>\n<returncode>{done.returncode}</returncode>"


messages = [{"role": "user", "content": options.task}]
while True:
    response = litellm.completion(model=options.model, messages=messages, tools=tools, base_url=options.base_url)
    message = response.choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        result = bash(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
