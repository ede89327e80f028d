"""Agents that use LiteLLM or ask for one of its dependencies."""
from agent import TASK, Agent, Program
from network import FAILING_COMMAND, FINAL_TEXT, WORKING_COMMAND, failing_script

PACKAGES = ("litellm==1.106.2", "python-dotenv==1.2.4", "smolagents[openai]==1.26.0", "mini-swe-agent==2.4.6", "mcp==2.3.0")


class LitellmProgram(Program):
    folder = "litellm"
    packages = PACKAGES
    program = "litellm_agent.py"

    def environment(self, case):
        # Otherwise it asks GitHub for a list of prices.
        return {**super().environment(case), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    def command(self, case):
        return [*super().command(case), "--model", self.model]


class Smolagents(Program):
    """Ends with a call of a tool that answers."""

    name = "smolagents"
    library = "smolagents"
    folder = "litellm"
    packages = PACKAGES
    program = "smolagents_agent.py"
    calls = 6

    def script(self):
        return [*failing_script()[:-1], [{"call": "final_answer", "args": {"answer": FINAL_TEXT}}]]


class SmolagentsCode(Smolagents):
    """A CodeAgent: its model writes Python. The code itself does not fail; the last one has no result."""

    name = "smolagents-code"
    calls = 5
    failed = 0

    def script(self):
        def code(text):
            return [{"text": f"Thought: I try this.\n<code>\n{text}\n</code>"}]

        commands = [FAILING_COMMAND] * 4 + [WORKING_COMMAND]
        return [*(code(f"print(bash(command={command!r}))") for command in commands), code(f"final_answer({FINAL_TEXT!r})")]

    def command(self, case):
        return [*super().command(case), "--code"]


class MiniSweAgent(Agent):
    """Ends with a command whose result the model never sees."""

    name = "mini-swe-agent"
    library = "mini-swe-agent"
    in_table = True
    folder = "litellm"
    packages = PACKAGES
    places = ("env", "dotenv", "config", "flag")
    calls = 6
    config = "mini.yaml"
    volatile = [(r"\d+\.\d+s\b", "N s")]

    def call(self, command):
        return {"call": "bash", "args": {"command": command}}

    def script(self):
        end = f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {FINAL_TEXT}"
        return [*failing_script(self.call)[:-1], [self.call(end)]]

    def prepare(self, case):
        settings = case.home / ".config/mini-swe-agent"
        settings.mkdir(parents=True)
        url = case.url("dotenv")
        (settings / ".env").write_text("MSWEA_CONFIGURED=true\n" + (f"OPENAI_BASE_URL={url}\n" if url else ""))
        if url := case.url("config"):
            (case.work / "gateway.yaml").write_text(f"model:\n  model_kwargs:\n    api_base: {url}\n")

    def environment(self, case):
        return {**super().environment(case), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    def command(self, case):
        url = case.url("flag")
        return [
            self.installed / "bin/mini", "--model", "openai/gpt-4.1", "--task", TASK, "--yolo", "--exit-immediately",
            "--config", self.config, *(["--config", "gateway.yaml"] if case.url("config") else []),
            *(["--config", f"model.model_kwargs.api_base={url}"] if url else []),
        ]


class MiniSweAgentText(MiniSweAgent):
    """Writes commands into its text. The last one has no result."""

    name = "mini-swe-agent-text"
    config = "mini_textbased.yaml"
    calls = 5

    def call(self, command):
        return {"text": f"I try this.\n\n```mswea_bash_command\n{command}\n```"}

    def command(self, case):
        return [*super().command(case), "--model-class", "litellm_textbased"]


AGENTS = [
    LitellmProgram(name="litellm-openai", model="openai/gpt-4.1"),
    LitellmProgram(name="litellm-anthropic", model="anthropic/claude-sonnet-4-5", vendor="anthropic"),
    Smolagents(),
    SmolagentsCode(),
    MiniSweAgent(),
    MiniSweAgentText(),
]
