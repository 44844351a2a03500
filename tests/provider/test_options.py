"""An editor's options become request fields, or a diagnostic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.provider.options import ResponseOptions
from tests.client.server import run, streamed
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    scripted_provider,
)


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


@pytest.mark.parametrize(("given", "sent"), OPTIONS.values(), ids=OPTIONS.keys())
def test_options_become_request_fields(given: dict[str, Any], sent: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed()) as (provider, server):
            await provider.provide_response(MODEL, HELLO, ResponseOptions(given))
        body = server.asked[0].json
        assert {name: body[name] for name in body if name not in ("input", "model", "stream")} == sent

    run(scenario())


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


def test_an_option_of_the_wrong_type_adds_a_diagnostic() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed()) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO, ResponseOptions({"temperature": "hot"}))
        assert [diagnostic.message for diagnostic in result.diagnostics] == [
            "the option 'temperature' has the wrong type; it was not sent"
        ]

    run(scenario())
