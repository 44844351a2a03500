"""Cases of LiteLLM's SDK: its Responses API, and Chat Completions on top of it."""

import json

import litellm
from serving import serve

litellm.telemetry = False
ADD = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


def text_of(made):
    return "".join(part.text for item in made.output if item.type == "message" for part in item.content)


def responses(model):
    return text_of(litellm.responses(model=f"openai/{model}", input="Say hello", max_retries=0))


def stream(model):
    text, thoughts, last = "", "", ""
    for event in litellm.responses(
        model=f"openai/{model}",
        input="Say hello",
        stream=True,
        reasoning={"effort": "medium", "summary": "auto"},
    ):
        text += event.delta if event.type == "response.output_text.delta" else ""
        thoughts += event.delta if event.type == "response.reasoning_summary_text.delta" else ""
        last = str(getattr(event.type, "value", event.type))
    return {"text": text, "thoughts": thoughts, "last": last}


def tool_loop(model):
    fields = {"model": f"openai/{model}", "tools": [ADD]}
    made = litellm.responses(input="What is 2 + 3?", **fields)
    calls = [item for item in made.output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "5"} for call in calls]
    last = litellm.responses(input=outputs, previous_response_id=made.id, **fields)
    return {"calls": [json.loads(call.arguments) for call in calls], "text": text_of(last)}


def bridge(model):
    """Chat Completions, which LiteLLM sends to the Responses API."""
    tool = {"type": "function", "function": {key: ADD[key] for key in ("name", "description", "parameters")}}
    messages = [{"role": "user", "content": "What is 2 + 3?"}]
    fields = {"model": f"openai/responses/{model}", "tools": [tool]}
    made = litellm.completion(messages=messages, **fields).choices[0].message
    messages.append(made.model_dump(exclude_none=True))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "5"} for call in made.tool_calls]
    last = litellm.completion(messages=messages, **fields).choices[0].message
    calls = [json.loads(call.function.arguments) for call in made.tool_calls]
    return {"calls": calls, "text": last.content}


serve({each.__name__: each for each in (responses, stream, tool_loop, bridge)})
