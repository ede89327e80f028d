"""OpenHands' command line. It stops an agent that repeats itself four times, so its script has three failing calls."""
import json

from agent import TASK, Agent
from network import FAILING_COMMAND, FINAL_TEXT, WORKING_COMMAND


class OpenHands(Agent):
    name = "openhands"
    library = "openhands"
    group = "heavy"
    in_table = True
    folder = "openhands"
    # One of its dependencies has no wheel.
    packages = ("--no-binary", "func-timeout", "openhands==1.16.0")
    python = "3.12"
    places = ("env", "config")
    volatile = [
        (r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", "ID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", "TIME"),
    ]
    # Ends with a call whose result the model never sees.
    calls = 5
    failed = 3
    timeout = 180

    def script(self):
        commands = [FAILING_COMMAND] * 3 + [WORKING_COMMAND]
        calls = [{"call": "terminal", "args": {"command": command, "security_risk": "LOW"}} for command in commands]
        return [[call] for call in calls] + [[{"call": "finish", "args": {"message": FINAL_TEXT}}]]

    def prepare(self, case):
        if url := case.url("config"):
            (case.home / ".openhands").mkdir()
            llm = {"model": "openai/gpt-4.1", "api_key": "sk-test-openai", "base_url": url, "usage_id": "agent"}
            settings = {"llm": llm, "tools": [{"name": "terminal"}], "system_prompt_kwargs": {"cli_mode": True}, "kind": "Agent"}
            (case.home / ".openhands/agent_settings.json").write_text(json.dumps(settings))

    def environment(self, case):
        variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}
        url = case.url("env")
        if case.url("config"):
            # The variable of the library that it uses. Its own variable would win over the settings.
            return {**variables, **({"OPENAI_BASE_URL": url} if url else {})}
        variables |= {"LLM_API_KEY": "sk-test-openai", "LLM_MODEL": "openai/gpt-4.1"}
        return {**variables, **({"LLM_BASE_URL": url} if url else {})}

    def command(self, case):
        override = [] if case.url("config") else ["--override-with-envs"]
        return [self.installed / "bin/openhands", "--headless", *override, "--task", TASK]


AGENTS = [OpenHands()]
