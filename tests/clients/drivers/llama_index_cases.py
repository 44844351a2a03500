"""Cases of LlamaIndex."""

import os

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from serving import serve

ran = []


def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


def llm_for(model, **fields):
    ran.clear()
    return OpenAIResponses(
        model=model,
        api_base=os.environ["OPENAI_BASE_URL"],
        max_retries=0,
        timeout=30,
        context_window=100_000,
        **fields,
    )


def chat(model):
    messages = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Say hello"),
    ]
    return llm_for(model).chat(messages).message.content


def stream(model):
    messages = [ChatMessage(role="user", content="Say hello")]
    return "".join(piece.delta or "" for piece in llm_for(model).stream_chat(messages))


def tool_loop(model, tracked=False):
    """Call a tool and send its output back, over the history or over `previous_response_id`."""
    llm = llm_for(model, track_previous_responses=tracked)
    tool = FunctionTool.from_defaults(add)
    history = [ChatMessage(role="user", content="What is 2 + 3?")]
    made = llm.chat_with_tools([tool], chat_history=history)
    calls = llm.get_tool_calls_from_response(made)
    history.append(made.message)
    for call in calls:
        output = tool(**call.tool_kwargs)
        history.append(
            ChatMessage(role="tool", content=str(output), additional_kwargs={"call_id": call.tool_id})
        )
    last = llm.chat_with_tools([tool], chat_history=history)
    return {"text": last.message.content, "ran": list(ran)}


serve({each.__name__: each for each in (chat, stream, tool_loop)})
