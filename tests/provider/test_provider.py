"""The provider with a scripted endpoint: requests, failures, usage and follow-ups."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import (
    ContextOverflowError,
    OpenResponsesError,
)
from penstock.models.directory import ModelDirectory
from penstock.parts.markers import marker_part
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.protocol.content import JsonObject
from penstock.provider.editor_turn import Host
from penstock.provider.options import ResponseOptions
from penstock.provider.provider import LanguageModelProvider
from penstock.provider.tracker import UsageTracker
from tests.cli import streams
from tests.client.asking import asking
from tests.client.server import HELLO as HELLO_STREAM
from tests.client.server import head, run, send, sse, stall, streamed
from tests.provider.failing_endpoints import FAILURES
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    ModelList,
    ReceivedParts,
    call_stream,
    refused,
    scripted_provider,
    text_stream,
    user,
)

LOOK = ChatTool("look", "Look somewhere", {"type": "object", "properties": {"at": {"type": "string"}}})


def test_parts_are_reported_as_they_arrive_and_the_result_is_complete() -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        async with scripted_provider(streamed()) as (provider, server):
            result = await provider.provide_response(MODEL, HELLO, progress=received)
        assert [part.value for part in received.parts if isinstance(part, TextPart)] == [
            "Hello, ",
            "water ",
            "水 🌊",
        ]
        assert (result.finish, result.status, result.error) == ("stop", "completed", None)
        sent = server.asked[0].json
        assert (sent["model"], sent["stream"]) == (MODEL, True)
        assert sent["input"][0]["content"] == [{"type": "input_text", "text": "Hello"}]

    run(scenario())


def test_tools_and_the_tool_mode_are_sent() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed(call_stream(("1", "look", {"at": "sea"})))) as (
            provider,
            server,
        ):
            received = ReceivedParts()
            result = await provider.provide_response(MODEL, HELLO, ResponseOptions({}, [LOOK], 2), received)
        assert received.parts == [ToolCallPart("gw-call_1", "look", {"at": "sea"})]
        assert result.finish == "tool_calls"
        assert server.asked[0].json["tool_choice"] == "required"
        assert [tool["name"] for tool in server.asked[0].json["tools"]] == ["look"]

    run(scenario())


def test_encrypted_reasoning_is_requested_for_a_reasoning_model() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed(), reasoning=True) as (provider, server):
            await provider.provide_response(MODEL, HELLO)
        assert server.asked[0].json["include"] == ["reasoning.encrypted_content"]

    run(scenario())


def test_cancel_during_the_model_lookup_sends_nothing() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()

        class Silent:
            async def models(self) -> list[JsonObject]:
                cancel.set()
                await asyncio.Event().wait()
                return []

        async with asking() as (client, server):
            provider = LanguageModelProvider(client, ModelDirectory(Silent()))
            result = await provider.provide_response(MODEL, HELLO, cancel=cancel)
            assert (result.finish, result.error, server.asked) == ("cancelled", None, [])
            # The next caller uses the list of models, so its request continues.
            (still,) = (task for task in asyncio.all_tasks() if task.get_name() == "penstock models")
            still.cancel()

    run(scenario())


def test_a_cancel_after_the_end_changes_nothing() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        async with scripted_provider(streamed()) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO, cancel=cancel)
            cancel.set()
        assert result.finish == "stop"

    run(scenario())


@pytest.mark.parametrize(
    ("script", "kind", "message_part", "has_output"), FAILURES.values(), ids=FAILURES.keys()
)
def test_a_failure_is_raised_and_the_parts_before_it_stay(
    script: Any, kind: type[OpenResponsesError], message_part: str, has_output: bool
) -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        async with scripted_provider(script, retries=0, resumes=0) as (provider, _):
            with pytest.raises(kind, match=message_part) as raised:
                await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text == ("Hello, " if has_output else "")
        (request,) = provider.tracker.recent
        assert (request.outcome, provider.tracker.total.failed) == ("failed", 1)
        assert message_part in request.error
        if kind is ContextOverflowError:
            assert (raised.value.limit_tokens, raised.value.used_tokens) == (1000, 1234)

    run(scenario())


def test_a_rejected_request_has_no_usage() -> None:
    async def scenario() -> None:
        async with scripted_provider(refused(400, "bad", "no")) as (provider, _):
            with pytest.raises(OpenResponsesError):
                await provider.provide_response(MODEL, HELLO)
        assert provider.tracker.total.tokens.input == 0

    run(scenario())


def test_an_exception_in_progress_is_a_failure() -> None:
    async def scenario() -> None:
        def progress(_: Part) -> None:
            raise LookupError("no such window")

        async with scripted_provider([send(head() + sse(HELLO_STREAM[:5])), stall]) as (provider, server):
            with pytest.raises(LookupError):
                await provider.provide_response(MODEL, HELLO, progress=progress)
            await server.hung_up()
        assert provider.tracker.total.failed == 1

    run(scenario())


def test_a_lone_surrogate_in_a_message_is_replaced() -> None:
    async def scenario() -> None:
        call = ToolCallPart("gw-1", "look", {"at": "\ud83d"})
        messages = [user("cut \ud83d"), ChatMessage(Role.ASSISTANT, [call]), user("on")]
        async with scripted_provider(streamed()) as (provider, server):
            await provider.provide_response(MODEL, messages)
        sent = server.asked[0].json["input"]
        assert sent[0]["content"][0]["text"] == "cut \ufffd"
        assert sent[1]["arguments"] == '{"at":"\ufffd"}'

    run(scenario())


# Usage and state


def test_usage_and_cost_come_from_the_endpoint() -> None:
    async def scenario() -> None:
        usage = {
            "input_tokens": 1000,
            "output_tokens": 100,
            "total_tokens": 1100,
            "input_tokens_details": {"cached_tokens": 600},
            "output_tokens_details": {"reasoning_tokens": 40},
        }
        async with scripted_provider(streamed(text_stream("Yes.", usage))) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO)
        assert result.usage is not None
        (request,) = provider.tracker.recent
        assert (request.is_estimate, request.max_input) == (False, 800)
        tokens = request.tokens
        assert (tokens.input, tokens.output, tokens.cached, tokens.reasoning) == (1000, 100, 600, 40)
        assert request.cost == pytest.approx((400 * 2 + 600 * 0.5 + 100 * 10) / 1e6)

    run(scenario())


def test_the_counter_learns_from_the_real_usage() -> None:
    async def scenario() -> None:
        usage = {"input_tokens": 400, "output_tokens": 1, "total_tokens": 401}
        scripts = [streamed(text_stream("Yes.", usage)) for _ in range(3)]
        async with scripted_provider(*scripts) as (provider, _):
            for _ in scripts:
                await provider.provide_response(MODEL, [user("word " * 100)])
        first, _, third = (request.estimated_input for request in provider.tracker.recent)
        assert abs(third - 400) < abs(first - 400) / 4

    run(scenario())


def test_providers_can_share_a_tracker() -> None:
    async def scenario() -> None:
        tracker = UsageTracker()
        async with asking(streamed(), streamed()) as (client, _):
            providers = [
                LanguageModelProvider(client, ModelDirectory(ModelList()), tracker=tracker) for _ in range(2)
            ]
            await asyncio.gather(*(each.provide_response(MODEL, HELLO) for each in providers))
        assert (tracker.total.requests, tracker.total.tokens.input) == (2, 18)

    run(scenario())


def test_the_estimate_includes_tools_and_system_prompt() -> None:
    async def scenario() -> None:
        prompted = ResponseOptions({"system_prompt": "Answer in one word."}, [LOOK])
        async with scripted_provider(streamed(), streamed()) as (provider, _):
            await provider.provide_response(MODEL, HELLO)
            await provider.provide_response(MODEL, HELLO, prompted)
        bare, full = (request.estimated_input for request in provider.tracker.recent)
        counted = provider.counter.count_tools(MODEL, [LOOK])
        assert full - bare >= counted + provider.provide_token_count(MODEL, "Answer in one word.")

    run(scenario())


def test_without_usage_the_figures_are_estimates() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed(text_stream("Yes, of course.", None))) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO)
        assert result.usage is None
        (request,) = provider.tracker.recent
        assert request.is_estimate
        assert request.tokens.output == provider.provide_token_count(MODEL, "Yes, of course.")

    run(scenario())


def test_a_follow_up_with_other_instructions_sends_the_full_history() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        received = ReceivedParts()
        system = ChatMessage(Role.SYSTEM, [TextPart("Be brief.")])
        async with scripted_provider(streamed(), streamed(), streamed(), host=host) as (provider, server):
            options = ResponseOptions({"system_prompt": "Be kind."})
            await provider.provide_response(MODEL, [system, *HELLO], options, received)
            answer = ChatMessage(Role.ASSISTANT, received.parts)
            await provider.provide_response(MODEL, [system, *HELLO, answer, user("On.")], options)
            await provider.provide_response(MODEL, [system, *HELLO, answer, user("On.")])
        follow_up, changed = (asked.json for asked in server.asked[1:])
        assert follow_up["previous_response_id"] == "resp_1"
        assert "previous_response_id" not in changed

    run(scenario())


def test_a_follow_up_sends_what_is_new_and_the_full_history_once_if_the_response_is_lost() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        answer = ChatMessage(
            Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hello yourself.")]
        )
        messages = [*HELLO, answer, user("And now?")]
        lost = refused(400, "previous_response_not_found", "no such response")
        async with scripted_provider(lost, streamed(), lost, lost, host=host) as (provider, server):
            await provider.provide_response(MODEL, messages)
            short, full = (asked.json for asked in server.asked)
            assert (short["previous_response_id"], len(short["input"])) == ("resp_0", 1)
            assert ("previous_response_id" in full, len(full["input"])) == (False, 3)
            with pytest.raises(OpenResponsesError):
                await provider.provide_response(MODEL, messages)
            assert len(server.asked) == 4  # one retry per request

    run(scenario())


LOST_IN_STREAM = [
    HELLO_STREAM[0],
    {
        "type": "response.failed",
        "sequence_number": 1,
        "response": {
            "id": "resp_1",
            "status": "failed",
            "error": {"code": "previous_response_not_found", "message": "gone"},
        },
    },
]
REFUSED_FOLLOW_UPS = {
    "an output is missing": refused(400, "invalid_request", "No tool output found for function call x"),
    "the response is unknown": refused(404, "not_found", "no such response"),
    "the error is in the stream": streamed(LOST_IN_STREAM),
    "the stored conversation is too long": refused(
        400, "context_length_exceeded", "Input is too long for requested model."
    ),
}


@pytest.mark.parametrize("script", REFUSED_FOLLOW_UPS.values(), ids=REFUSED_FOLLOW_UPS.keys())
def test_a_rejected_follow_up_is_retried_with_the_full_history(script: Any) -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        answer = ChatMessage(
            Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hi.")]
        )
        async with scripted_provider(script, streamed(), host=host) as (provider, server):
            result = await provider.provide_response(MODEL, [*HELLO, answer, user("And now?")])
        assert result.finish == "stop"
        assert [("previous_response_id" in asked.json) for asked in server.asked] == [True, False]

    run(scenario())


def test_thinking_is_returned_to_the_model_in_a_tool_loop() -> None:
    async def scenario() -> None:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
        call, made = streams.call("1", 1, "look", ["{}"])
        events = streams.response([{"type": "response.output_item.done", "item": item}, *call], [item, made])
        received = ReceivedParts()
        async with scripted_provider(streamed(events), streamed()) as (provider, server):
            options = ResponseOptions({}, [LOOK])
            await provider.provide_response(MODEL, HELLO, options, received)
            result = ToolResultPart("gw-call_1", [TextPart("a ship")])
            messages = [
                *HELLO,
                ChatMessage(Role.ASSISTANT, received.parts),
                ChatMessage(Role.USER, [result]),
            ]
            await provider.provide_response(MODEL, messages, options)
        assert any(isinstance(part, ThinkingPart) for part in received.parts)
        sent = server.asked[1].json["input"]
        assert [each["type"] for each in sent] == [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
        ]
        assert sent[1]["encrypted_content"] == "gAAA"
        assert sent[2]["call_id"] == sent[3]["call_id"] == "call_1"

    run(scenario())


def test_models_and_token_counts() -> None:
    async def scenario() -> None:
        async with scripted_provider() as (provider, _):
            (model,) = await provider.provide_models()
            assert (model.id, model.max_input, model.max_output) == (MODEL, 800, 200)
            assert provider.provide_token_count(MODEL, "Hello") > 0
            assert provider.provide_token_count(MODEL, HELLO[0]) > provider.provide_token_count(
                MODEL, "Hello"
            )

    run(scenario())
