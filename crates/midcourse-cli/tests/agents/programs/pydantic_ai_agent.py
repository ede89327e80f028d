"""An agent written with Pydantic AI. The model is given as `openai-chat:NAME`, `openai-responses:NAME` or `anthropic:NAME`."""
import argparse
import subprocess

from dotenv import load_dotenv
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--model")
parser.add_argument("--base-url")
options = parser.parse_args()
model = options.model
if options.base_url:
    vendor, name = model.split(":")
    if vendor == "anthropic":
        model = AnthropicModel(name, provider=AnthropicProvider(base_url=options.base_url, api_key="sk-ant-test"))
    else:
        Model = OpenAIResponsesModel if vendor == "openai-responses" else OpenAIChatModel
        model = Model(name, provider=OpenAIProvider(base_url=options.base_url))
agent = Agent(model, instructions="You run shell commands.")


@agent.tool_plain
def bash(command: str) -> dict:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return {"output": done.stdout + done.stderr, "returncode": done.returncode}


print(agent.run_sync(options.task).output)
