"""Gemini CLI. Messages go into one model request: midcourse adds a message at its end.

Gemini CLI takes hooks for one process only from a file that nobody but root can change. So drive it as root, with TMPDIR
in a folder of root's.
"""
import json

from agent import TASK, HookedAgent
from network import failing_script


class Gemini(HookedAgent):
    name = "gemini-cli"
    folder = "gemini"
    packages = ("@google/gemini-cli@0.61.0",)
    vendor = "google"
    base_variable = "GOOGLE_GEMINI_BASE_URL"
    suffix = ""
    ways = ("redirect",)
    places = ("env", "dotenv")
    volatile = (
        ("Process Group PGID: [0-9]+", "Process Group PGID: N"),
        (r"run_shell_command(__run_shell_command)?_[0-9]+_[0-9]+", "CALL"),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
        # Where a hook delivered a message. The client then joins the texts of each other message.
        (r',\{"role":"user","parts":\[\{"text":""\}\]\}|,\{"parts":\[\{"text":""\}\],"role":"user"\}', ""),
        (r'</session_context>"\},\{"text":"', "</session_context>"),
    )

    def script(self):
        return failing_script(lambda command: {"call": "run_shell_command", "args": {"command": command, "description": "Runs a command"}})

    def prepare(self, case):
        super().prepare(case)
        settings = {"privacy": {"usageStatisticsEnabled": False}, "security": {"auth": {"selectedType": "gemini-api-key"}}}
        (case.home / ".gemini").mkdir()
        (case.home / ".gemini/settings.json").write_text(json.dumps(settings))

    def command(self, case):
        return ["gemini", "-m", "gemini-2.5-pro", "-p", TASK, "--approval-mode", "yolo", "--skip-trust"]


AGENTS = [Gemini()]
