"""Answer a question with the help of a tool: the model calls it, and answers from its result."""

import asyncio
from collections.abc import Mapping
from typing import Any

import penstock as p
from demo_gateway import demo_gateway


def get_weather(arguments: Mapping[str, Any]) -> str:
    print("called with", dict(arguments))
    return f"18 degrees and sunny in {arguments['city']}"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = p.Tool(p.ChatTool("get_weather", "The weather in a city, now", SCHEMA), get_weather)


async def main(url: str) -> None:
    async with p.OpenResponsesClient(p.ClientConfig(base_url=url)) as client:
        provider = p.LanguageModelProvider(client, p.ModelDirectory(client))
        question = p.ChatMessage("user", [p.TextPart("How is the weather in Rome?")])
        answer = await p.converse(provider, "demo", [question], [WEATHER])
    used = provider.tracker.total.tokens
    print(answer.text)
    print(f"{used.input} tokens in, {used.output} out, {len(answer.results)} turns")


if __name__ == "__main__":
    with demo_gateway() as url:
        asyncio.run(main(url))
