"""An agent written with the OpenAI Agents SDK, on Chat Completions or, with `--model responses`, on Responses."""
import argparse
import json
import subprocess

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from dotenv import load_dotenv
from openai import AsyncOpenAI

load_dotenv()
set_tracing_disabled(True)
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--base-url")
parser.add_argument("--model")
options = parser.parse_args()


@function_tool
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return json.dumps({"stdout": done.stdout, "stderr": done.stderr, "exit_code": done.returncode})


Model = OpenAIResponsesModel if options.model == "responses" else OpenAIChatCompletionsModel
model = Model(model="gpt-4.1", openai_client=AsyncOpenAI(base_url=options.base_url))
agent = Agent(name="assistant", instructions="You run shell commands.", tools=[bash], model=model)
print(Runner.run_sync(agent, options.task).final_output)
