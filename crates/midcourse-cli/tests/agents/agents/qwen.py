"""Qwen Code. Its default host is not OpenAI's, although it uses OPENAI_API_KEY and OPENAI_BASE_URL."""
import json

from agent import TASK, HookedAgent
from network import failing_script


class Qwen(HookedAgent):
    name = "qwen-code"
    folder = "qwen"
    packages = ("@qwen-code/qwen-code@0.24.4",)
    ways = ("redirect",)
    keeps_messages = ("plain",)
    places = ("env", "dotenv", "config", "flag")
    volatile = (("Process Group PGID: [0-9]+", "Process Group PGID: N"),)

    def script(self):
        def call(command):
            # It loses the output of some commands that end quickly. Not `sleep`: that looks like waiting for something.
            slow = f"{command}; code=$?; read -t 0.3 <> <(:); exit $code"
            return {"call": "run_shell_command", "args": {"command": slow, "is_background": False}}

        return failing_script(call)

    def prepare(self, case):
        super().prepare(case)
        settings = {"privacy": {"usageStatisticsEnabled": False}}
        if url := case.url("config"):
            settings["security"] = {"auth": {"selectedType": "openai", "baseUrl": url}}
        (case.home / ".qwen").mkdir()
        (case.home / ".qwen/settings.json").write_text(json.dumps(settings))

    def environment(self, case):
        return {**super().environment(case), "OPENAI_MODEL": "gpt-4.1"}

    def command(self, case):
        url = case.url("flag")
        return [
            "qwen", "--yolo", "--auth-type", "openai",
            *(["--openai-base-url", url] if url else []), TASK,
        ]


AGENTS = [Qwen()]
