"""Claude Code and Codex, as installed by tests/clients/install."""
import json
import os
from pathlib import Path

from agent import HERE, TASK, Agent
from network import failing_script

UUID = ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID")
CLIENTS = Path(os.environ.get("MIDCOURSE_CLIENTS", HERE.parents[3] / "target/clients"))


class Client(Agent):
    # What a hook delivers stays in the conversation.
    keeps_messages = True
    group = "clients"
    folder = "clients"
    node = True
    in_table = True
    installed = CLIENTS


class ClaudeCode(Client):
    name = "claude-code"
    vendor = "anthropic"
    places = ("env", "config")
    volatile = (
        UUID,
        ("cch=[0-9a-f]{5}", "cch=HASH"),
        ("^Bash=[0-9]+$", "DURATION"),
        # Where a hook delivered a message. It has the cache breakpoint then.
        (r',"cache_control":\{[^}]*\}', ""),
        (r',\{"role":"system","content":(\[\{"type":"text","text":)?"PostToolUse\w*:Bash hook additional context: "(\}\])?\}', ""),
        (r'device_id\\":\\"[0-9a-f]{64}', "DEVICE"),
        # What it measures about itself, and asks about experiments.
        (r'(?s)^\{"(events|attributes)":.*', "TELEMETRY"),
    )

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
    volatile = (
        UUID,
        ("^[A-Za-z0-9+/]{22}==$", "WEBSOCKET KEY"),
        # An object of strings, in an order that changes.
        (r'"client_metadata":\{("([^"\\]|\\.)*"[:,]?)*\}', "METADATA"),
        (r'_unix_ms":[0-9]+|create_time":[0-9.]+', "TIME"),
        (r"Chunk ID: [0-9a-f]+\\nWall time: [0-9.]+ seconds", "TIME"),
        (r" \(codex_exec; [0-9.]+\)$", ""),
        # Where a hook delivered a message.
        (r'\{"type":"message","id":"msg_UUID","role":"developer","content":\[\{"type":"input_text","text":""\}\](,"internal\w+":\{[^}]*\})?\},', ""),
        # What it measures about itself.
        (r'(?s)^\{\s*"resourceMetrics":.*', "TELEMETRY"),
    )

    def script(self):
        return failing_script(lambda command: {"call": "exec_command", "args": {"cmd": command}})

    def prepare(self, case):
        (case.home / ".codex").mkdir()
        config = 'model = "gpt-5.4"\nfeatures.plugins = false\n'
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
