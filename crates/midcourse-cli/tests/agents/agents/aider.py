"""aider: the model writes edits into its text, and aider sends it the output of a failing test."""
from agent import TASK, Agent
from network import FAILING_COMMAND, FINAL_TEXT


class Aider(Agent):
    name = "aider"
    group = "heavy"
    in_table = True
    folder = "aider"
    packages = ("aider-chat==0.86.2",)
    base_variable = "OPENAI_API_BASE"
    places = ("env", "dotenv", "config", "flag")
    # Edits, each with the output of the failed test as its result. Three different edits are no loop yet, and aider asks
    # no more than three times.
    calls = 3
    failed = 3
    is_told = False

    def script(self):
        edits = ["", "one", "two", "three"]
        block = "notes.txt\n```\n<<<<<<< SEARCH\n{}=======\n{}\n>>>>>>> REPLACE\n```\n"
        # aider asks three times more after a failed test.
        turns = [block.format(f"{old}\n" if old else "", new) for old, new in zip(edits, edits[1:])]
        return [[{"text": turn}] for turn in turns] + [[{"text": FINAL_TEXT}]]

    def prepare(self, case):
        super().prepare(case)
        if url := case.url("config"):
            (case.work / ".aider.conf.yml").write_text(f"openai-api-base: {url}\n")

    def environment(self, case):
        return {**super().environment(case), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    def command(self, case):
        url = case.url("flag")
        return [
            self.installed / "bin/aider", "--model", "gpt-4.1", "--message", TASK, "--yes-always", "--no-git", "--no-check-update",
            "--analytics-disable", "--no-show-model-warnings", "--no-show-release-notes", "--no-pretty", "--map-tokens", "0", "--edit-format", "diff",
            "--auto-test", "--test-cmd", FAILING_COMMAND, *(["--openai-api-base", url] if url else []),
        ]


AGENTS = [Aider()]
