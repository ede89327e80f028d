"""gptme, with tool calls and in its default format: commands as code blocks in text."""
from agent import TASK, Agent
from network import FINAL_TEXT, failing_script


class Gptme(Agent):
    name = "gptme"
    group = "heavy"
    in_table = True
    folder = "gptme"
    packages = ("gptme==0.35.1",)
    places = ("env", "config")
    volatile = [(r"\d+\.\d+s\b", "N s")]
    calls = 6
    format = "tool"
    end = [{"text": FINAL_TEXT}, {"call": "complete", "args": {}}]

    def call(self, command):
        return {"call": "shell", "args": {"command": command}}

    def script(self):
        return [*failing_script(self.call)[:-1], self.end]

    def prepare(self, case):
        settings = case.home / ".config/gptme"
        settings.mkdir(parents=True)
        text = "[user]\nname = 'User'\n"
        if url := case.url("config"):
            text += f"[[providers]]\nname = 'gateway'\nbase_url = '{url}'\napi_key_env = 'OPENAI_API_KEY'\ndefault_model = 'gpt-4.1'\n"
        (settings / "config.toml").write_text(text)

    def command(self, case):
        model = "gateway/gpt-4.1" if case.url("config") else "openai/gpt-4.1"
        # By name: it takes a process that has a path of it as an argument for another gptme, and tells the model.
        return [
            "gptme", "--non-interactive", "--no-confirm", "--model", model, "--tools", "shell,complete", "--tool-format", self.format,
            "--name", "test", "--no-workspace", TASK,
        ]


class GptmeText(Gptme):
    name = "gptme-text"
    format = "markdown"
    calls = 5
    end = [{"text": FINAL_TEXT + "\n```complete\n```\n"}]

    def call(self, command):
        return {"text": f"I try this.\n```shell\n{command}\n```\n"}


AGENTS = [Gptme(), GptmeText()]
