"""GitHub Copilot CLI with a model provider of the user's own: without one, it needs a login."""
import re

from agent import TASK, HookedAgent
from network import failing_script


class Copilot(HookedAgent):
    name = "copilot-cli"
    folder = "copilot"
    packages = ("@github/copilot-linux-x64@1.0.102",)
    keeps_messages = ("plain",)
    base_variable = "COPILOT_PROVIDER_BASE_URL"
    ways = ("redirect",)
    forms = ("env",)
    volatile = (
        (r"<current_datetime>[^<]*</current_datetime>", "TIME"),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
        # Where a hook delivered a message.
        (r'\\n\\nTool \\"bash\\" succeeded. Additional guidance from postToolUse hooks:\\n(?=")', ""),
    )

    def script(self):
        return failing_script(lambda command: {"call": "bash", "args": {"command": command, "description": "Runs a command", "mode": "sync"}})

    def environment(self, case):
        return {**super().environment(case), "COPILOT_OFFLINE": "true", "COPILOT_MODEL": "gpt-4.1"}

    def command(self, case):
        program = self.installed / "node_modules/@github/copilot-linux-x64/copilot"
        return [program, "-p", TASK, "--allow-all-tools", "--no-auto-update"]

    def answer(self, stdout):
        # It shows the results of calls, with what a hook added, and the numbers of the session.
        return "\n".join(line for line in re.sub(r"\[midcourse run monitor\][^✗●]*", "", stdout).splitlines() if line.startswith("All done."))


AGENTS = [Copilot()]
