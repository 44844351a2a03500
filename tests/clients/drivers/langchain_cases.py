"""Cases of LangChain and LangGraph."""

from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, custom_tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel
from serving import serve

ran: list[Any] = []


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


@custom_tool
def remember(text: str) -> str:
    """Remember a text."""
    ran.append(text)
    return "remembered"


class Cat(BaseModel):
    """A cat."""

    name: str
    age: int


def chat(model, **fields):
    ran.clear()
    return ChatOpenAI(model=model, use_responses_api=True, max_retries=0, timeout=30, **fields)


def text_of(message):
    return message.text if isinstance(message.text, str) else message.text()


def invoke(model):
    made = chat(model).invoke([("system", "Be brief."), ("human", "Say hello")])
    return {"text": text_of(made), "tokens": made.usage_metadata["total_tokens"]}


def stream(model):
    return "".join(text_of(piece) for piece in chat(model).stream("Say hello"))


def tool_loop(model, streaming=False, previous=False):
    """A tool loop by hand: LangChain takes the arguments of a stream from its deltas."""
    llm = chat(model, use_previous_response_id=previous).bind_tools([add])
    history = [HumanMessage("What is 2 + 3?")]
    for _ in range(2):
        made = None
        if streaming:
            for piece in llm.stream(history):
                made = piece if made is None else made + piece
        else:
            made = llm.invoke(history)
        history.append(made)
        history += [
            ToolMessage(add.invoke(call["args"]), tool_call_id=call["id"]) for call in made.tool_calls
        ]
        if not made.tool_calls:
            break
    return {"text": text_of(history[-1]), "ran": list(ran)}


def custom(model):
    agent = create_react_agent(chat(model), [remember])
    result = agent.invoke({"messages": [("human", "Remember this")]})
    return {"text": text_of(result["messages"][-1]), "ran": list(ran)}


def structured(model):
    return chat(model).with_structured_output(Cat).invoke("Describe a cat").model_dump()


def reasoning(model):
    fields = {"reasoning": {"effort": "medium", "summary": "auto"}, "output_version": "v1"}
    made = chat(model, **fields).invoke("Think")
    thoughts = [
        each["reasoning"]
        for each in made.content_blocks
        if each["type"] == "reasoning" and "reasoning" in each
    ]
    return {"text": text_of(made), "thoughts": thoughts}


def agent_loop(model, streaming=False):
    """A LangGraph agent with a memory, in two turns."""
    agent = create_react_agent(chat(model), [add], checkpointer=MemorySaver())
    config = {"configurable": {"thread_id": "cats"}}
    texts = []
    for question in ("What is 2 + 3?", "Are you sure?"):
        asked = {"messages": [("human", question)]}
        if streaming:
            for values in agent.stream(asked, config, stream_mode="values"):
                result = values
        else:
            result = agent.invoke(asked, config)
        texts.append(text_of(result["messages"][-1]))
    return {"texts": texts, "ran": list(ran)}


def tokens(model):
    """The tokens of a LangGraph agent, as they arrive."""
    agent = create_react_agent(chat(model, streaming=True), [add])
    asked = {"messages": [("human", "What is 2 + 3?")]}
    pieces = [
        piece for piece, _ in agent.stream(asked, stream_mode="messages") if piece.type == "AIMessageChunk"
    ]
    return {"text": "".join(text_of(piece) for piece in pieces), "ran": list(ran)}


serve(
    {
        each.__name__: each
        for each in (invoke, stream, tool_loop, custom, structured, reasoning, agent_loop, tokens)
    }
)
