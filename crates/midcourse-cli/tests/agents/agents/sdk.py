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
    SdkProgram(name="openai", group="quick", program="openai_chat.py"),
    SdkProgram(name="openai-responses", group="quick", program="openai_responses.py"),
    # The server keeps the conversation; the client sends only what is new.
    SdkProgram(name="openai-chained", program="openai_responses.py", model="chained"),
    SdkProgram(name="anthropic", group="quick", program="anthropic_messages.py", vendor="anthropic"),
    SdkProgram(
        name="openai-agents", group="quick", program="openai_agents.py", volatile=[(r"agents-sdk:run:\w+", "agents-sdk:run:ID")]
    ),
    SdkProgram(
        name="openai-agents-responses", program="openai_agents.py", model="responses",
        volatile=[(r"agents-sdk:run:\w+", "agents-sdk:run:ID")],
    ),
    SdkProgram(name="langchain-openai", program="langchain_agent.py", model="openai:gpt-4.1"),
    SdkProgram(name="langchain-anthropic", program="langchain_agent.py", model="anthropic:claude-sonnet-4-5", vendor="anthropic"),
    SdkProgram(name="pydantic-ai-openai", program="pydantic_ai_agent.py", model="openai-chat:gpt-4.1"),
    SdkProgram(name="pydantic-ai-responses", program="pydantic_ai_agent.py", model="openai-responses:gpt-4.1"),
    SdkProgram(name="pydantic-ai-anthropic", program="pydantic_ai_agent.py", model="anthropic:claude-sonnet-4-5", vendor="anthropic"),
]
