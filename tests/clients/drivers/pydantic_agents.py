"""Cases of pydantic-ai."""

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from serving import serve

ran = []


class Cat(BaseModel):
    name: str
    age: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append([a, b])
    return a + b


def agent_for(model, settings=None, **fields):
    ran.clear()
    made = OpenAIResponsesModel(model, settings=OpenAIResponsesModelSettings(**(settings or {})))
    return Agent(made, instructions="Be brief.", **fields)


async def run(model):
    result = await agent_for(model).run("Say hello")
    return {"text": result.output, "tokens": result.usage.total_tokens}


async def stream(model):
    async with agent_for(model).run_stream("Say hello") as result:
        return "".join([text async for text in result.stream_text(delta=True)])


async def functions(model, previous=False):
    settings = {"openai_previous_response_id": "auto"} if previous else {}
    result = await agent_for(model, settings, tools=[add]).run("What is 2 + 3?")
    return {"text": result.output, "ran": list(ran)}


async def streamed_functions(model):
    async with agent_for(model, tools=[add]).run_stream("What is 2 + 3?") as result:
        text = await result.get_output()
    return {"text": text, "ran": list(ran)}


async def two_turns(model):
    agent = agent_for(model, tools=[add])
    first = await agent.run("What is 2 + 3?")
    second = await agent.run("Are you sure?", message_history=first.all_messages())
    return {"texts": [first.output, second.output], "ran": list(ran)}


async def structured(model):
    result = await agent_for(model, output_type=Cat).run("Describe a cat")
    return result.output.model_dump()


async def reasoning(model):
    settings = {"openai_reasoning_effort": "medium", "openai_reasoning_summary": "auto"}
    agent = agent_for(model, settings, tools=[add])
    result = await agent.run("What is 2 + 3?")
    parts = [part for message in result.all_messages() for part in message.parts]
    thoughts = [part.content for part in parts if isinstance(part, ThinkingPart) and part.content]
    return {"text": result.output, "ran": list(ran), "thoughts": thoughts}


serve(
    {
        each.__name__: each
        for each in (run, stream, functions, streamed_functions, two_turns, structured, reasoning)
    }
)
