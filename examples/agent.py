"""Answer a question with the help of a tool: `python examples/agent.py URL MODEL QUESTION`."""

import asyncio
import os
import sys

import penstock as p

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
LOOK = p.Tool(p.ChatTool("look", "Look somewhere", SCHEMA), lambda arguments: f"a ship at {arguments['at']}")


async def main(url: str, model: str, question: str) -> None:
    config = p.ClientConfig(base_url=url, key=lambda: os.environ.get("PENSTOCK_API_KEY"))
    async with p.OpenResponsesClient(config) as client:
        provider = p.LanguageModelProvider(client, p.ModelDirectory(client))
        answer = await p.converse(provider, model, [p.ChatMessage(1, [p.TextPart(question)])], [LOOK])
    used = provider.tracker.total.tokens
    print(answer.text)
    print(f"{used.input} tokens in, {used.output} out, {len(answer.results)} turns")


asyncio.run(main(*sys.argv[1:4]))
