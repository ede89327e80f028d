"""Claude Code and Codex, as installed by tests/clients/install."""
import json
import os
from pathlib import Path

from agent import HERE, TASK, Agent
from network import failing_script

CLIENTS = Path(os.environ.get("MIDCOURSE_CLIENTS", HERE.parents[3] / "target/clients"))


class Client(Agent):
    group = "clients"
    folder = "clients"
    node = True
    in_table = True
    installed = CLIENTS


class ClaudeCode(Client):
    name = "claude-code"
    vendor = "anthropic"
    places = ("env", "config")

    def script(self):
        return failing_script(lambda command: {"call": "Bash", "args": {"command": command}})

    def prepare(self, case):
        if url := case.url("config"):
            (case.home / ".claude").mkdir()
            (case.home / ".claude/settings.json").write_text(json.dumps({"env": {self.base_variable: url}}))

    def command(self, case):
        program = self.installed / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
        return [program, "-p", TASK, "--allowedTools", "Bash"]


class Codex(Client):
    name = "codex"
    places = ("config", "flag")

    def script(self):
        return failing_script(lambda command: {"call": "exec_command", "args": {"cmd": command}})

    def prepare(self, case):
        (case.home / ".codex").mkdir()
        config = 'model = "gpt-5.4"\n'
        if url := case.url("config"):
            config += (
                f'model_provider = "mine"\n[model_providers.mine]\nname = "mine"\nbase_url = "{url}"\n'
                'wire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
            )
        (case.home / ".codex/config.toml").write_text(config)

    def environment(self, case):
        return {**super().environment(case), "CODEX_API_KEY": "sk-test-openai"}

    def command(self, case):
        program = self.installed / "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
        url = case.url("flag")
        return [
            program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
            *(["-c", f'openai_base_url="{url}"'] if url else []), TASK,
        ]


AGENTS = [ClaudeCode(), Codex()]
