"""Agents written with the Python libraries of the vendors, and with frameworks that use these libraries."""
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
    # As option --model of the program, if it has one.
    model = None

    def command(self, case):
        return [*super().command(case), *(["--model", self.model] if self.model else [])]


AGENTS = [
    SdkProgram(name="openai", library="openai", group="quick", program="openai_chat.py"),
    SdkProgram(name="openai-responses", library="openai", group="quick", program="openai_responses.py"),
    # The server keeps the conversation; the client sends only what is new.
    SdkProgram(name="openai-chained", library="openai", program="openai_responses.py", model="chained"),
    SdkProgram(name="anthropic", library="anthropic", group="quick", program="anthropic_messages.py", vendor="anthropic"),
    SdkProgram(
        name="openai-agents", library="openai-agents", group="quick", program="openai_agents.py", volatile=[(r"agents-sdk:run:\w+", "agents-sdk:run:ID")]
    ),
    SdkProgram(
        name="openai-agents-responses", library="openai-agents", program="openai_agents.py", model="responses",
        volatile=[(r"agents-sdk:run:\w+", "agents-sdk:run:ID")],
    ),
    SdkProgram(name="langchain-openai", library="langchain", program="langchain_agent.py", model="openai:gpt-4.1"),
    SdkProgram(name="langchain-anthropic", library="langchain", program="langchain_agent.py", model="anthropic:claude-sonnet-4-5", vendor="anthropic"),
    SdkProgram(name="pydantic-ai-openai", library="pydantic-ai-slim", program="pydantic_ai_agent.py", model="openai-chat:gpt-4.1"),
    SdkProgram(name="pydantic-ai-responses", library="pydantic-ai-slim", program="pydantic_ai_agent.py", model="openai-responses:gpt-4.1"),
    SdkProgram(name="pydantic-ai-anthropic", library="pydantic-ai-slim", program="pydantic_ai_agent.py", model="anthropic:claude-sonnet-4-5", vendor="anthropic"),
]
