"""The command `llm`, with a Python function as tool."""
from agent import TASK, Agent

BASH = '''
import subprocess


def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}\\nexit code {done.returncode}"
'''


class Llm(Agent):
    folder = "llm"
    in_table = True
    packages = ("llm==0.36", "llm-anthropic==0.30")
    model = None
    # Its own settings, for an endpoint with a key of its own.
    gateway = "- model_id: gateway\n  model_name: gpt-4.1\n  api_key_name: gateway\n  supports_tools: true\n  api_base: "

    def prepare(self, case):
        (case.work / "tools.py").write_text(BASH)
        if url := case.url("config"):
            settings = case.home / ".config/io.datasette.llm"
            settings.mkdir(parents=True)
            (settings / "extra-openai-models.yaml").write_text(self.gateway + url + "\n")
            (settings / "keys.json").write_text('{"gateway": "sk-test-openai"}')

    def command(self, case):
        model = "gateway" if case.url("config") else self.model
        return [self.installed / "bin/llm", "--model", model, "--functions", "tools.py", "--chain-limit", "20", TASK]


AGENTS = [
    Llm(name="llm-openai", model="gpt-4.1", places=("env", "config")),
    Llm(name="llm-anthropic", model="claude-sonnet-4.5", vendor="anthropic"),
]
