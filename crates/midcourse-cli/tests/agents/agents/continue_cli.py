"""Continue's command-line agent. Its address is nowhere but in its configuration file."""
from agent import INSTALLED, TASK, Agent
from network import failing_script

# Installed for the programs in node_programs.py.
NODE = INSTALLED / "node/node_modules/node22/bin/node"


class Continue(Agent):
    name = "continue"
    group = "node"
    folder = "continue"
    node = True
    packages = ("@continuedev/cli@1.5.47",)
    forms = ("default", "config", "config+env")

    def script(self):
        return failing_script(lambda command: {"call": "Bash", "args": {"command": command}})

    def prepare(self, case):
        url = case.url("config")
        base = f"    apiBase: {url}\n" if url else ""
        (case.work / "config.yaml").write_text(
            "name: test\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: model\n    provider: openai\n    model: gpt-4.1\n"
            f"    apiKey: sk-test-openai\n    roles: [chat]\n{base}"
        )

    def command(self, case):
        modules = self.installed / "node_modules"
        return [NODE, modules / "@continuedev/cli/dist/cn.js", "-p", "--auto", "--config", "config.yaml", TASK]


AGENTS = [Continue()]
