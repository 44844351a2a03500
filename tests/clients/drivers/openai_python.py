"""Cases of OpenAI's Python library. They run with the newest version and with one from a year ago."""

import time

from openai import APIError, BadRequestError, NotFoundError, OpenAI
from pydantic import BaseModel
from serving import serve

client = OpenAI(max_retries=0, timeout=30)
ADD = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


class Cat(BaseModel):
    name: str
    age: int


def create(model):
    made = client.responses.create(model=model, input="Say hello", instructions="Be brief.")
    return {"text": made.output_text, "status": made.status, "tokens": made.usage.total_tokens}


def tool_loop(model, way="full"):
    """A tool loop over the history, over `previous_response_id`, or over a conversation."""
    conversation = client.conversations.create().id if way == "conversation" else None
    history = [{"role": "user", "content": "What is 2 + 3?"}]
    fields = {"model": model, "tools": [ADD]}
    if conversation:
        fields["conversation"] = conversation
    made = client.responses.create(input=history, **fields)
    calls = [item for item in made.output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "5"} for call in calls]
    if way == "full":
        last = client.responses.create(input=[*history, *made.output, *outputs], **fields)
    elif way == "previous":
        last = client.responses.create(input=outputs, previous_response_id=made.id, **fields)
    else:
        last = client.responses.create(input=outputs, **fields)
    return {"calls": [call.arguments for call in calls], "text": last.output_text}


def stream_helper(model):
    """The helper checks the order of the events, and raises if something is missing."""
    text, kinds = "", []
    with client.responses.stream(model=model, input="Say hello", tools=[ADD]) as stream:
        for event in stream:
            kinds.append(event.type)
            text += event.delta if event.type == "response.output_text.delta" else ""
        made = stream.get_final_response()
    calls = [item.parsed_arguments for item in made.output if item.type == "function_call"]
    return {"text": text, "final": made.output_text, "calls": calls, "first": kinds[0], "last": kinds[-1]}


def reasoning(model):
    """Reasoning of a stream, in whichever of its two forms, and in the final response."""
    fields = {"reasoning": {"effort": "medium", "summary": "auto"}, "input": "Think"}
    seen = ""
    for event in client.responses.create(model=model, stream=True, **fields):
        if event.type in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            seen += event.delta
        last = event
    items = [item for item in last.response.output if item.type == "reasoning"]
    parts = [part.text for item in items for part in [*item.summary, *(item.content or [])]]
    return {"streamed": seen, "final": "".join(parts), "text": last.response.output_text}


def parse(model):
    made = client.responses.parse(model=model, input="Describe a cat", text_format=Cat)
    return made.output_parsed.model_dump()


def retrieve(model):
    made = client.responses.create(model=model, input="Say hello")
    again = client.responses.retrieve(made.id)
    return {"same": again.to_dict() == made.to_dict(), "text": again.output_text}


def input_items(model):
    made = client.responses.create(model=model, input="Say hello")
    items = list(client.responses.input_items.list(made.id))
    return [[item.type, item.role, item.content[0].text] for item in items]


def delete(model):
    made = client.responses.create(model=model, input="Say hello")
    client.responses.delete(made.id)
    try:
        client.responses.retrieve(made.id)
    except NotFoundError as error:
        return error.code
    return "still there"


def background(model):
    made = client.responses.create(model=model, input="Say hello", background=True)
    begun = made.status
    while made.status in ("queued", "in_progress"):
        time.sleep(0.05)
        made = client.responses.retrieve(made.id)
    return {"begun": begun, "status": made.status, "text": made.output_text}


def cancel(model):
    """Cancel a background response after its first text."""
    id = ""
    with client.responses.create(model=model, input="Say hello", background=True, stream=True) as stream:
        for event in stream:
            id = event.response.id if event.type == "response.created" else id
            if event.type == "response.output_text.delta":
                break
    cancelled = client.responses.cancel(id)
    return {"status": cancelled.status, "later": client.responses.retrieve(id).status}


def resume(model):
    """Leave the stream of a background response in the middle, and come back for the rest."""
    begun = []
    with client.responses.create(model=model, input="Say hello", background=True, stream=True) as stream:
        for event in stream:
            begun.append(event)
            if event.type == "response.output_text.delta":
                break
    id, number = begun[0].response.id, begun[-1].sequence_number
    rest = list(client.responses.retrieve(id, stream=True, starting_after=number))
    events = [*begun, *rest]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return {
        "numbers": [event.sequence_number for event in events] == list(range(len(events))),
        "text": text,
        "last": events[-1].type,
    }


def conversations(model):
    conversation = client.conversations.create(metadata={"topic": "cats"})
    client.responses.create(model=model, input="My cat is grey", conversation=conversation.id)
    made = client.responses.create(model=model, input="Which colour?", conversation=conversation.id)
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    texts = [item.content[0].text for item in items if item.type == "message"]
    client.conversations.delete(conversation.id)
    return {"text": made.output_text, "items": texts, "metadata": conversation.metadata}


def refused(model):
    try:
        client.responses.create(model=model, input="Say hello")
    except BadRequestError as error:
        return {"shown": "no cats are allowed here" in error.message, "code": error.code}
    return "no error"


def cut(model):
    """A stream that fails in the middle must raise, or end in a failed response."""
    text = ""
    try:
        for event in client.responses.create(model=model, input="Say hello", stream=True):
            text += event.delta if event.type == "response.output_text.delta" else ""
            last = event.type
    except APIError as error:
        return {"text": text, "end": "raised", "has_code": bool(error.code)}
    return {"text": text, "end": last}


def truncated(model):
    made = client.responses.create(model=model, input="Say hello")
    return {"status": made.status, "reason": made.incomplete_details.reason, "text": made.output_text}


def models(model):
    return model in [each.id for each in client.models.list()]


serve(
    {
        each.__name__: each
        for each in (
            create, tool_loop, stream_helper, reasoning, parse, retrieve, input_items, delete, background,
            cancel, resume, conversations, refused, cut, truncated, models,
        )
    }
)  # fmt: skip
