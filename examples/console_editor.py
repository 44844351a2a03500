"""Use the provider in an editor of your own, here the console: messages in, parts out, and cancel."""

import asyncio

import penstock as p
from demo_gateway import demo_gateway


async def answer(provider: p.LanguageModelProvider, conversation: list[p.ChatMessage]) -> None:
    parts: list[p.Part] = []
    cancel = asyncio.Event()

    def show(part: p.Part) -> None:
        parts.append(part)
        if isinstance(part, p.TextPart):
            print(part.value, end="", flush=True)
        if len(parts) == 50:
            cancel.set()  # an editor does this when its user presses Stop

    result = await provider.provide_response("demo", conversation, progress=show, cancel=cancel)
    print(f"\n{result.finish}, {len(parts)} parts: {sorted({type(part).__name__ for part in parts})}")
    conversation.append(p.ChatMessage("assistant", parts))


async def main(url: str) -> None:
    async with p.OpenResponsesClient(p.ClientConfig(base_url=url)) as client:
        provider = p.LanguageModelProvider(client, p.ModelDirectory(client))
        print("models:", [model.id for model in await provider.provide_models()])
        conversation: list[p.ChatMessage] = []
        for question in ("Think about it, then count from 1 to 3.", "Count from 1 to 1000."):
            conversation.append(p.ChatMessage("user", [p.TextPart(question)]))
            print("user:", question, f"({provider.provide_token_count('demo', conversation[-1])} tokens)")
            await answer(provider, conversation)


if __name__ == "__main__":
    with demo_gateway() as url:
        asyncio.run(main(url))
