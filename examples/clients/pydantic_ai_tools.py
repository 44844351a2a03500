"""pydantic-ai: a streamed answer, and a tool that the agent calls.

Run `penstock serve` in another terminal, then:
pip install "pydantic-ai-slim[openai]" && python examples/clients/pydantic_ai_tools.py
"""

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(
    base_url=os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("PENSTOCK_KEY", "unused"),
)
agent = Agent(OpenAIResponsesModel(os.environ.get("PENSTOCK_MODEL", "demo"), provider=provider))


@agent.tool_plain
def get_weather(city: str) -> str:
    """The weather in a city, now."""
    return f"18 degrees and sunny in {city}"


async def main() -> None:
    async with agent.run_stream("Count from 1 to 5.") as running:
        async for text in running.stream_text(delta=True):
            print(text, end="", flush=True)
    print()
    print((await agent.run("How is the weather in Rome?")).output)


asyncio.run(main())
