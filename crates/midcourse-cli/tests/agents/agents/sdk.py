"""Agents written with the Python libraries of the vendors and with frameworks that use them."""
from agent import Program


class SdkProgram(Program):
    folder = "sdk"
    packages = (
        "openai==3.49.0",
        "anthropic==2.8.0",
        "python-dotenv==1.2.4",
        "openai-agents==0.24.0",
        "langchain==1.4.7",
        "langchain-openai==1.7.3",
        "langchain-anthropic==1.7.7",
        "pydantic-ai-slim[openai,anthropic]==2.66.0",
    )


AGENTS = [
    SdkProgram(name="openai-agents", group="quick", program="openai_agents.py", volatile=[(r"agents-sdk:run:\w+", "agents-sdk:run:ID")]),
]
