"""Cases of Microsoft's Agent Framework."""

from agent_framework import Agent
from agent_framework_openai import OpenAIChatClient
from serving import serve

ran = []


def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


def agent_for(model):
    ran.clear()
    return Agent(OpenAIChatClient(model=model), instructions="Be brief.", tools=[add])


async def run(model):
    result = await agent_for(model).run("What is 2 + 3?")
    return {"text": result.text, "ran": list(ran)}


async def stream(model):
    streaming = agent_for(model).run("What is 2 + 3?", stream=True)
    async for _ in streaming:
        pass
    return {"text": (await streaming.get_final_response()).text, "ran": list(ran)}


async def session(model):
    agent = agent_for(model)
    kept = agent.create_session()
    texts = [
        (await agent.run(question, session=kept)).text for question in ("What is 2 + 3?", "Are you sure?")
    ]
    return {"texts": texts, "ran": list(ran)}


serve({each.__name__: each for each in (run, stream, session)})
