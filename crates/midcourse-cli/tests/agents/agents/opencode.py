"""opencode with its providers for OpenAI and Anthropic, and with a provider from its configuration file."""
import json

from agent import TASK, HookedAgent
from network import FAILING_COMMAND, FINAL_TEXT, WORKING_COMMAND


class Opencode(HookedAgent):
    folder = "opencode"
    packages = ("opencode-linux-x64@1.18.33",)
    ways = ("redirect",)
    places = ("env", "config")
    model = None
    volatile = (("ses_[0-9A-Za-z]+", "SESSION"), ("(00-)?[0-9a-f]{32}-[0-9a-f]{16}(-[0-9a-f]+)*", "TRACE"))

    def script(self):
        def call(command):
            return [{"call": "bash", "args": {"command": command, "description": "Runs a command"}}]

        return [*(call(FAILING_COMMAND) for _ in range(4)), call(WORKING_COMMAND), [{"text": FINAL_TEXT}]]

    def prepare(self, case):
        if url := case.url("config"):
            config = {"provider": {self.vendor: {"options": {"baseURL": url}}}}
            (case.work / "opencode.json").write_text(json.dumps(config))

    def command(self, case):
        return [self.installed / "node_modules/opencode-linux-x64/bin/opencode", "run", "-m", self.model, TASK]


class OwnProvider(Opencode):
    """The address is nowhere but in the configuration file."""

    model = "mine/small"
    forms = ("config", "config+env")

    def prepare(self, case):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": case.url("config"), "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"small": {}},
        }
        (case.work / "opencode.json").write_text(json.dumps({"provider": {"mine": provider}}))


AGENTS = [
    Opencode(name="opencode-openai", model="openai/gpt-4.1"),
    Opencode(name="opencode-anthropic", model="anthropic/claude-sonnet-4-5", vendor="anthropic", suffix="/v1"),
    OwnProvider(name="opencode-own"),
]
