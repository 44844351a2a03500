"""The models of `openai` (the Python SDK) accept every event of Penstock that they know.

The SDK itself does not validate a stream, so it tolerates more than these tests do; agent frameworks and
other SDKs that validate with the same models do not (ask A7).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from openai._models import construct_type
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from penstock.protocol.errors import IncompleteDetails, ResponseError
from penstock.protocol.events import EVENTS, Event, LifecycleEvent
from penstock.protocol.wire import encode, to_builtins
from tests.protocol.openai_models import models
from tests.protocol.samples import samples, spelled_samples

UNKNOWN_TO_OPENAI: dict[str, str] = {
    # The specification's name for reasoning text. Every client of OpenAI's wire format gets
    # `response.reasoning_text.*` instead, from its accent.
    "response.reasoning.delta": "strict OpenResponses clients and the official compliance suite; TanStack AI",
    "response.reasoning.done": "strict OpenResponses clients and the official compliance suite; TanStack AI",
    # In OpenAI's recorded streams and in the AI SDK, not in the models.
    "response.apply_patch_call_operation_diff.delta": "AI SDK, for a client that declared `apply_patch`",
    "response.apply_patch_call_operation_diff.done": "AI SDK, for a client that declared `apply_patch`",
    # Names that are only read, from upstreams that use them: never sent.
    "response.reasoning_summary.delta": "none: read only, a spelling of older documents",
    "response.reasoning_summary.done": "none: read only, a spelling of older documents",
    "response.reasoning_text_part.added": "none: read only, GodeX's name",
    "response.reasoning_text_part.done": "none: read only, GodeX's name",
    "response.reasoning_part.added": "none: read only, vLLM and Bedrock send it",
    "response.reasoning_part.done": "none: read only, vLLM and Bedrock send it",
    "response.output_text_annotation.added": "none: read only, OpenAI's old name for the event",
}
"""Event types that the models do not know, and the client that reads each (spec S3, quirk R10)."""


EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def known_samples() -> list[Event]:
    return [event for event in [*samples(), *spelled_samples()] if event.type in models()]


def as_the_sdk_reads(event: Event) -> BaseModel:
    """Read an event as the SDK does, without validation."""
    read = construct_type(type_=ResponseStreamEvent, value=msgspec.json.decode(encode(event)))
    assert isinstance(read, BaseModel)
    return read


def test_the_table_of_events_unknown_to_openai_is_up_to_date() -> None:
    assert EVENTS.keys() - models().keys() == UNKNOWN_TO_OPENAI.keys()


def test_there_is_a_sample_of_every_event_that_openai_knows() -> None:
    assert {event.type for event in known_samples()} == EVENTS.keys() & models().keys()


@pytest.mark.parametrize("event", known_samples(), ids=lambda event: str(event.type))
def test_openai_accepts_the_event(event: Event) -> None:
    """Validate strictly: no string for a number, and no number for a string."""
    models()[event.type].model_validate_json(encode(event), strict=True)
    assert type(EVENT.validate_json(encode(event), strict=True)) is models()[event.type]


@pytest.mark.parametrize("event", known_samples(), ids=lambda event: str(event.type))
def test_openai_loses_nothing_of_the_event(event: Event) -> None:
    read = as_the_sdk_reads(event)

    assert type(read) is models()[event.type]
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == to_builtins(event)


def test_openai_reads_every_item_and_tool_as_what_it_is() -> None:
    """Not as another member of the union that happens to accept the same fields."""
    for event in samples():
        if isinstance(event, LifecycleEvent):
            response = OpenAIResponse.model_validate_json(encode(event.response), strict=True)
            assert [item.type for item in response.output] == [item.type for item in event.response.output]
            assert [tool.type for tool in response.tools] == [tool.type for tool in event.response.tools]


_SNAPSHOT = next(event.response for event in samples() if isinstance(event, LifecycleEvent))

BEYOND_THE_MODELS = {
    "cancelled": replace(
        _SNAPSHOT,
        status="incomplete",
        incomplete_details=IncompleteDetails(reason="cancelled"),
    ),
    "a code of our own": replace(
        _SNAPSHOT,
        status="failed",
        error=ResponseError(code="bridge.stream.incomplete_tool_call", message="The call was cut off."),
    ),
}
"""Values that we send on purpose (decision 5, decision 6), although the models do not list them."""


@pytest.mark.parametrize("response", BEYOND_THE_MODELS.values(), ids=BEYOND_THE_MODELS.keys())
def test_a_value_outside_openais_literals_is_still_read_by_the_sdk(response: Any) -> None:
    event = LifecycleEvent(type=f"response.{response.status}", response=response)
    with pytest.raises(ValueError, match="literal_error"):
        models()[event.type].model_validate_json(encode(event))

    read = as_the_sdk_reads(event)

    assert type(read) is models()[event.type]
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == to_builtins(event)
