"""An agent written with LangChain. The model is given as `openai:NAME` or `anthropic:NAME`."""
import argparse
import subprocess

from dotenv import load_dotenv
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("--model")
parser.add_argument("--base-url")
options = parser.parse_args()


@tool
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    text = done.stdout + done.stderr
    return text if done.returncode == 0 else f"{text}(exit code: {done.returncode})"


base = {"base_url": options.base_url} if options.base_url else {}
agent = create_agent(init_chat_model(options.model, **base), [bash], system_prompt="You run shell commands.")
final = None
# Streamed, because then LangChain asks for the token usage in the stream.
for _, state in agent.stream({"messages": [{"role": "user", "content": options.task}]}, stream_mode=["messages", "values"]):
    final = state
print(final["messages"][-1].text)
