"""A refusal that names the limit teaches it; the refused turn is neither trimmed nor retried."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ContextOverflowError
from penstock.models.info import ModelInfo
from penstock.models.learned_limits import EndpointLimits, LearnedLimits
from penstock.parts.markers import marker_part
from penstock.parts.parts import ChatMessage, Role, TextPart
from penstock.provider.editor_turn import Host
from penstock.provider.provider import LanguageModelProvider
from tests.client.server import Script, run, streamed
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    OVERRIDE,
    refused,
    scripted_provider,
    text_stream,
    user,
)

NOT_SET = f"{MODEL} = tools"
TOO_LONG = refused(
    400,
    "context_length_exceeded",
    "This model's maximum context length is 48000 tokens. However, you requested 50123 tokens.",
)
ANOTHER = refused(400, "context_length_exceeded", "This model's maximum context length is 32000 tokens.")
WITHOUT_NUMBERS = refused(400, "context_length_exceeded", "Input is too long for requested model.")


def answered(input_tokens: int) -> Script:
    usage = {"input_tokens": input_tokens, "output_tokens": 5, "total_tokens": input_tokens + 5}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return streamed(text_stream("Hi.", {**usage, **details}))


def memory() -> EndpointLimits:
    return LearnedLimits().at("http://here/v1")


async def model_of(provider: LanguageModelProvider) -> ModelInfo:
    (info,) = await provider.provide_models()
    return info


async def overflow(provider: LanguageModelProvider) -> ContextOverflowError:
    with pytest.raises(ContextOverflowError) as caught:
        await provider.provide_response(MODEL, HELLO)
    return caught.value


def test_an_overflow_lowers_the_limit_and_the_turn_is_not_sent_again() -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {"limits": memory(), "override": NOT_SET}
        async with scripted_provider(TOO_LONG, **settings) as (provider, server):
            before = await model_of(provider)
            error = await overflow(provider)
            after = await model_of(provider)
        assert (before.context_window, before.sources["context_window"]) == (65_536, "default")
        assert (error.limit_tokens, error.used_tokens, error.is_limit_learned) == (48_000, 50_123, True)
        assert (after.context_window, after.sources["context_window"]) == (48_000, "learned")
        assert after.learned is not None
        assert after.learned.refused == 50_123
        assert len(server.asked) == 1

    run(scenario())


def test_an_overflow_in_the_stream_teaches_too() -> None:
    async def scenario() -> None:
        message = "prompt is too long: 50123 tokens > 48000 maximum"
        failed = {
            "type": "response.failed",
            "sequence_number": 1,
            "response": {
                "id": "resp_1",
                "status": "failed",
                "error": {"code": "context_length_exceeded", "message": message},
            },
        }
        script = streamed([text_stream("")[0], failed])
        async with scripted_provider(script, limits=memory(), override=NOT_SET) as (provider, _):
            assert (await overflow(provider)).is_limit_learned
            assert (await model_of(provider)).context_window == 48_000

    run(scenario())


def test_a_second_overflow_with_the_same_limit_teaches_nothing_new() -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {"limits": memory(), "override": NOT_SET}
        async with scripted_provider(TOO_LONG, TOO_LONG, ANOTHER, **settings) as (provider, _):
            learned = [(await overflow(provider)).is_limit_learned for _ in range(3)]
            assert learned == [True, False, True]
            assert (await model_of(provider)).context_window == 32_000

    run(scenario())


@pytest.mark.parametrize(
    ("input_tokens", "words", "window"),
    [
        (300, 1_000, 300),
        (301, 1_000, 65_536),
        (400, 150, 300),  # the sum of the calls of a tool loop at the endpoint
    ],
)
def test_a_turn_with_more_input_than_the_learned_limit_disproves_it(
    input_tokens: int, words: int, window: int
) -> None:
    async def scenario() -> None:
        small = refused(400, "context_length_exceeded", "maximum context length is 300 tokens, you sent 900")
        scripts = small, *[answered(input_tokens)] * 5
        async with scripted_provider(*scripts, limits=memory(), override=NOT_SET) as (provider, _):
            await overflow(provider)
            for _ in range(5):  # the usage also calibrates the counter
                await provider.provide_response(MODEL, [user("word " * words)])
            assert (await model_of(provider)).context_window == window

    run(scenario())


def test_an_override_of_the_window_is_not_lowered_by_an_overflow() -> None:
    async def scenario() -> None:
        override = f"{MODEL} = window:200k"
        async with scripted_provider(TOO_LONG, limits=memory(), override=override) as (provider, _):
            assert not (await overflow(provider)).is_limit_learned
            assert (await model_of(provider)).context_window == 200_000

    run(scenario())


def test_a_provider_without_learned_limits_learns_nothing() -> None:
    async def scenario() -> None:
        async with scripted_provider(TOO_LONG, override=NOT_SET) as (provider, _):
            assert not (await overflow(provider)).is_limit_learned
            assert (await model_of(provider)).context_window == 65_536
            assert provider.forget_limits() == {}

    run(scenario())


def test_a_refused_follow_up_teaches_the_limit_and_is_retried_with_the_full_history() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        marker = marker_part(MODEL, "http://here/v1", "resp_0")
        messages = [*HELLO, ChatMessage(Role.ASSISTANT, [marker, TextPart("Hi.")]), user("And now?")]
        settings: dict[str, Any] = {"limits": memory(), "override": NOT_SET, "host": host}
        async with scripted_provider(TOO_LONG, answered(1_000), **settings) as (provider, server):
            result = await provider.provide_response(MODEL, messages)
            assert (await model_of(provider)).context_window == 48_000
        assert result.finish == "stop"
        assert [("previous_response_id" in asked.json) for asked in server.asked] == [True, False]

    run(scenario())


def test_the_error_of_a_turn_that_is_refused_twice_says_that_the_limit_is_learned() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        marker = marker_part(MODEL, "http://here/v1", "resp_0")
        messages = [*HELLO, ChatMessage(Role.ASSISTANT, [marker, TextPart("Hi.")]), user("And now?")]
        settings: dict[str, Any] = {"limits": memory(), "override": NOT_SET, "host": host}
        async with scripted_provider(TOO_LONG, TOO_LONG, **settings) as (provider, server):
            with pytest.raises(ContextOverflowError) as caught:
                await provider.provide_response(MODEL, messages)
        assert caught.value.is_limit_learned
        assert len(server.asked) == 2

    run(scenario())


def test_an_overflow_without_a_size_has_our_estimate_unless_it_contradicts_the_limit() -> None:
    async def scenario() -> None:
        async with scripted_provider(WITHOUT_NUMBERS, ANOTHER, TOO_LONG, override=OVERRIDE) as (provider, _):
            errors = [await overflow(provider) for _ in range(3)]
        estimate, *others = [error.estimated_tokens for error in errors]
        assert estimate is not None
        assert 0 < estimate < 100
        assert others == [None, None]  # it is below the limit, or the endpoint knows the size

    run(scenario())


def test_forgotten_limits_are_returned() -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {"limits": memory(), "override": NOT_SET}
        async with scripted_provider(TOO_LONG, **settings) as (provider, _):
            await overflow(provider)
            assert provider.forget_limits(["another"]) == {}
            assert [*provider.forget_limits()] == [MODEL]
            assert (await model_of(provider)).context_window == 65_536

    run(scenario())
