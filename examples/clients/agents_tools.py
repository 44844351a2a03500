"""OpenAI Agents SDK: a streamed answer, and a tool that the agent calls.

Run `penstock serve` in another terminal, then:
pip install openai-agents && python examples/clients/agents_tools.py
"""

import asyncio
import os

from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI

client = AsyncOpenAI(
    base_url=os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("PENSTOCK_KEY", "unused"),
)
set_default_openai_client(client)
set_tracing_disabled(True)  # traces would go to OpenAI


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city, now."""
    return f"18 degrees and sunny in {city}"


async def main() -> None:
    agent = Agent(
        name="Assistant",
        model=os.environ.get("PENSTOCK_MODEL", "demo"),
        tools=[get_weather],
    )
    running = Runner.run_streamed(agent, "Count from 1 to 5.")
    async for event in running.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)
    print()
    print((await Runner.run(agent, "How is the weather in Rome?")).final_output)


asyncio.run(main())
