"""An editor's options become request fields, or a diagnostic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from penstock.provider.options import ResponseOptions, with_options
from tests.client.server import run, streamed
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    scripted_provider,
)

REQUEST = CreateResponse(model="m", input=[])


def test_only_options_that_are_set_are_sent() -> None:
    """No temperature, no limit, no tools and no tool choice (decision 29)."""

    async def scenario() -> None:
        async with scripted_provider(streamed()) as (provider, server):
            await provider.provide_response(MODEL, HELLO)
        assert sorted(server.asked[0].json) == ["input", "model", "stream"]

    run(scenario())


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": ({"temperature": 0.2, "top_p": 1}, {"temperature": 0.2, "top_p": 1}),
    "the editor's names": ({"topP": 0.5, "maxOutputTokens": 9}, {"top_p": 0.5, "max_output_tokens": 9}),
    "the old name of the limit": ({"max_tokens": 7}, {"max_output_tokens": 7}),
    "effort": ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}),
    "effort and summary": (
        {"reasoningEffort": "low", "reasoning_summary": "auto"},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "nested": ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low"}}),
    "private keys": ({"_telemetryTurn": 3, "_enableThinking": True}, {}),
    "a conversation": ({"_conversationId": "chat-7"}, {"prompt_cache_key": "chat-7"}),
    "a conversation with a long name": ({"_conversationId": "c" * 99}, {"prompt_cache_key": "c" * 64}),
    "wrong types": ({"temperature": "hot", "top_p": True, "max_output_tokens": 1.5}, {}),
    "null": ({"temperature": None}, {}),
}


def fields_of(request: CreateResponse) -> dict[str, Any]:
    """Return the fields of a request that come from options."""
    fields = to_builtins(request)
    return {name: value for name, value in fields.items() if name not in ("input", "model")}


@pytest.mark.parametrize(("options", "fields"), OPTIONS.values(), ids=OPTIONS.keys())
def test_options_become_request_fields(options: dict[str, Any], fields: dict[str, Any]) -> None:
    request, _ = with_options(REQUEST, options)
    assert fields_of(request) == fields
    assert fields_of(REQUEST) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "hot"}, "the option 'temperature' has the wrong type; it was not sent"),
        ({"top_p": True}, "the option 'top_p' has the wrong type; it was not sent"),
        ({"reasoning_effort": 3}, "the option 'reasoning_effort' has the wrong type; it was not sent"),
        ({"reasoning": {"effort": 3}}, "the option 'reasoning_effort' has the wrong type; it was not sent"),
        ({"creativity": 11}, "the option 'creativity' is unknown; it was not sent"),
    ],
)
def test_an_option_that_cannot_be_sent_is_reported(options: dict[str, Any], message: str) -> None:
    request, omitted = with_options(REQUEST, options)
    assert (request, omitted) == (REQUEST, [message])


@pytest.mark.parametrize(
    "options",
    [{"_telemetryTurn": 3}, {"_conversationId": ""}, {"system_prompt": "Be brief."}, {"creativity": None}],
    ids=["private", "an empty conversation id", "translated with the messages", "null"],
)
def test_an_option_that_is_not_for_the_request_is_not_reported(options: dict[str, Any]) -> None:
    assert with_options(REQUEST, options) == (REQUEST, [])


def test_the_last_of_two_names_for_one_field_is_used() -> None:
    request, _ = with_options(REQUEST, {"max_tokens": 7, "max_output_tokens": 9})
    assert fields_of(request) == {"max_output_tokens": 9}


def test_an_unknown_option_is_not_sent_and_adds_a_diagnostic() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed()) as (provider, server):
            options = ResponseOptions({"creativity": 11, "system_prompt": "Be brief."})
            result = await provider.provide_response(MODEL, HELLO, options)
        (diagnostic,) = result.diagnostics
        assert (diagnostic.code, "creativity" in diagnostic.message) == ("option_left_out", True)
        assert "creativity" not in server.asked[0].json
        assert server.asked[0].json["input"][0]["role"] == "system"

    run(scenario())
