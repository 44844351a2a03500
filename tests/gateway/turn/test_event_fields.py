"""No field that clients read is null, in any accent: ask A6 to ask A8, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.gateway.null_fields import holes
from tests.gateway.running import Reply, Running
from tests.gateway.scripts import RICH, TOOLS, body
from tests.gateway.upstream import ScriptedUpstream
from tests.protocol.openai_models import models

Json = dict[str, Any]


ACCENTS = ("openresponses", "openai", "copilot")


# ask A7


@pytest.mark.parametrize("accent", ACCENTS)
@pytest.mark.parametrize("model", RICH)
def test_nothing_that_clients_read_is_null(
    penstock: Running, upstream: ScriptedUpstream, model: str, accent: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS, accent=accent)
    assert holes(reply.events) == []
    assert reply.last["usage"]["input_tokens_details"].keys() >= {"cached_tokens"}


HOLES = [
    ("response.content_part.added", "annotations"),
    ("response.content_part.done", "logprobs"),
    ("response.output_text.delta", "logprobs"),
    ("response.output_text.delta", "content_index"),
    ("response.output_text.done", "output_index"),
    ("response.output_item.added", "summary"),
    ("response.output_item.done", "output_index"),
    ("response.function_call_arguments.delta", "item_id"),
    ("response.created", "tools"),
    ("response.created", "metadata"),
    ("response.completed", "output"),
    ("response.completed", "input_tokens_details"),
    ("response.completed", "reasoning_tokens"),
    ("response.completed", "sequence_number"),
]


@pytest.mark.parametrize(("type", "name"), HOLES)
def test_the_check_for_null_fields_finds_each(
    penstock: Running, upstream: ScriptedUpstream, type: str, name: str
) -> None:
    upstream.play("d07", body(RICH["chat"]()))
    events = penstock.stream("d07", tools=TOOLS).events
    named = (deepcopy(event) for event in events if event["type"] == type)
    nulled, holder = next((event, holder) for event in named for holder in _holders(event, name))
    holder[name] = None
    assert holes(nulled)
    if name != "sequence_number":  # whether it is present is checked for every event
        del holder[name]
        assert holes(nulled)


def _holders(value: Any, name: str) -> Iterator[Json]:
    """Every object that has a field of this name."""
    if isinstance(value, dict) and name in value:
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _holders(each, name)


@pytest.mark.parametrize("model", RICH)
def test_the_models_of_openai_python_accept_every_event_without_coercion(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS, accent="openai")
    assert [type for type in reply.types if type not in models()] == []
    for event, data in zip(reply.events, _data_of(reply), strict=True):
        models()[event["type"]].model_validate_json(data, strict=True)


def _data_of(reply: Reply) -> list[str]:
    lines = reply.body.decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
