"""An agent written with smolagents: a ToolCallingAgent, which writes earlier calls as text, or a CodeAgent."""
import argparse
import subprocess

from dotenv import load_dotenv
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--base-url")
parser.add_argument("--code", action="store_true")
options = parser.parse_args()


@tool
def bash(command: str) -> str:
    """Runs a shell command.

    Args:
        command: the command
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


Agent = CodeAgent if options.code else ToolCallingAgent
agent = Agent(tools=[bash], model=OpenAIModel("gpt-4.1", api_base=options.base_url), verbosity_level=0)
print(agent.run(options.task))
