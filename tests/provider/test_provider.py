"""The whole facade against a real endpoint on this machine: what is sent, reported and counted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.errors import (
    ContextOverflowError,
    NetworkError,
    OpenResponsesError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.models.directory import ModelDirectory
from penstock.parts.markers import history_of, marker_part
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
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
from tests.client.server import CHUNKED_HEAD, chunk, cut, head, run, send, sse, stall, streamed
from tests.client.server import HELLO as HELLO_STREAM
from tests.provider.talking import (
    HELLO,
    MODEL,
    Heard,
    Listed,
    call_stream,
    refused,
    talking,
    text_stream,
    user,
)

LOOK = ChatTool("look", "Look somewhere", {"type": "object", "properties": {"at": {"type": "string"}}})


def test_parts_are_reported_as_they_come_and_the_result_is_complete() -> None:
    async def scenario() -> None:
        heard = Heard()
        async with talking(streamed()) as (provider, server):
            result = await provider.provide_response(MODEL, HELLO, progress=heard)
        assert [part.value for part in heard.parts if isinstance(part, TextPart)] == [
            "Hello, ",
            "water ",
            "水 🌊",
        ]
        assert (result.finish, result.status, result.error) == ("stop", "completed", None)
        sent = server.asked[0].json
        assert (sent["model"], sent["stream"]) == (MODEL, True)
        assert sent["input"][0]["content"] == [{"type": "input_text", "text": "Hello"}]

    run(scenario())


def test_nothing_is_sent_that_nobody_asked_for() -> None:
    """Neither a temperature nor a limit, no tools and no choice among them (decision 29)."""

    async def scenario() -> None:
        async with talking(streamed()) as (provider, server):
            await provider.provide_response(MODEL, HELLO)
        assert sorted(server.asked[0].json) == ["input", "model", "stream"]

    run(scenario())


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": ({"temperature": 0.2, "top_p": 1}, {"temperature": 0.2, "top_p": 1}),
    "editor's spelling": ({"topP": 0.5, "maxOutputTokens": 9}, {"top_p": 0.5, "max_output_tokens": 9}),
    "a limit by its old name": ({"max_tokens": 7}, {"max_output_tokens": 7}),
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
def test_options_that_are_given_are_passed_on(given: dict[str, Any], sent: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with talking(streamed()) as (provider, server):
            await provider.provide_response(MODEL, HELLO, ResponseOptions(given))
        body = server.asked[0].json
        assert {name: body[name] for name in body if name not in ("input", "model", "stream")} == sent

    run(scenario())


def test_an_unknown_option_is_told_and_not_sent() -> None:
    async def scenario() -> None:
        async with talking(streamed()) as (provider, server):
            options = ResponseOptions({"creativity": 11, "system_prompt": "Be brief."})
            result = await provider.provide_response(MODEL, HELLO, options)
        (told,) = result.diagnostics
        assert (told.code, "creativity" in told.message) == ("option_left_out", True)
        assert "creativity" not in server.asked[0].json
        assert server.asked[0].json["input"][0]["role"] == "system"

    run(scenario())


def test_an_option_of_a_wrong_type_is_told() -> None:
    async def scenario() -> None:
        async with talking(streamed()) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO, ResponseOptions({"temperature": "hot"}))
        assert [told.message for told in result.diagnostics] == [
            "the option 'temperature' has the wrong type; it was not sent"
        ]

    run(scenario())


def test_tools_and_their_mode_are_sent() -> None:
    async def scenario() -> None:
        async with talking(streamed(call_stream(("1", "look", {"at": "sea"})))) as (provider, server):
            heard = Heard()
            result = await provider.provide_response(MODEL, HELLO, ResponseOptions({}, [LOOK], 2), heard)
        assert heard.parts == [ToolCallPart("gw-call_1", "look", {"at": "sea"})]
        assert result.finish == "tool_calls"
        assert server.asked[0].json["tool_choice"] == "required"
        assert [tool["name"] for tool in server.asked[0].json["tools"]] == ["look"]

    run(scenario())


def test_a_slow_reporter_sets_the_pace() -> None:
    async def scenario() -> None:
        order: list[str] = []

        async def progress(_: Part) -> None:
            order.append("begin")
            await asyncio.sleep(0)
            order.append("end")

        async with talking(streamed()) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=progress)
        assert order == ["begin", "end"] * 3

    run(scenario())


def test_reasoning_is_asked_for_of_a_model_that_reasons() -> None:
    async def scenario() -> None:
        async with talking(streamed(), reasoning=True) as (provider, server):
            await provider.provide_response(MODEL, HELLO)
        assert server.asked[0].json["include"] == ["reasoning.encrypted_content"]

    run(scenario())


# Cancellation


def test_cancel_closes_the_connection_and_resolves_with_what_came() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        heard: list[Part] = []

        def progress(part: Part) -> None:
            heard.append(part)
            cancel.set()

        async with talking([send(head() + sse(HELLO_STREAM[:6])), stall]) as (provider, server):
            result = await provider.provide_response(MODEL, HELLO, progress=progress, cancel=cancel)
            await server.hung_up()
        assert heard == [TextPart("Hello, ")]  # two texts were in that read; the second came after the cancel
        assert (result.finish, result.error) == ("cancelled", None)
        assert provider.tracker.total.cancelled == 1
        (request,) = provider.tracker.recent
        assert request.is_estimate
        assert request.tokens.input > 0
        assert request.tokens.output > 0

    run(scenario())


def test_cancel_in_the_middle_of_a_call_gives_no_call() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        heard = Heard()
        events = call_stream(("1", "look", {"at": "sea"}))
        async with talking([send(head() + sse(events[:4])), stall]) as (provider, server):
            turn = asyncio.create_task(
                provider.provide_response(MODEL, HELLO, ResponseOptions({}, [LOOK]), heard, cancel)
            )
            while not server.asked:
                await asyncio.sleep(0)
            cancel.set()
            result = await turn
            await server.hung_up()
        assert (heard.parts, result.finish) == ([], "cancelled")

    run(scenario())


def test_a_task_that_is_cancelled_is_counted_and_closes_the_connection() -> None:
    async def scenario() -> None:
        started = asyncio.Event()
        async with talking([send(head() + sse(HELLO_STREAM[:5])), stall]) as (provider, server):
            progress = lambda part: started.set()  # noqa: ARG005, E731
            turn = asyncio.create_task(provider.provide_response(MODEL, HELLO, progress=progress))
            await started.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await server.hung_up()
        assert provider.tracker.total.cancelled == 1

    run(scenario())


def test_a_cancel_while_the_model_is_looked_up_sends_nothing() -> None:
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
            # The list of models belongs to whoever asks next, so that request goes on.
            (still,) = (task for task in asyncio.all_tasks() if task.get_name() == "penstock models")
            still.cancel()

    run(scenario())


def test_a_failure_behind_a_cancel_is_none() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        async with talking(streamed(FAILED)) as (provider, _):
            progress = lambda part: cancel.set()  # noqa: ARG005, E731
            result = await provider.provide_response(MODEL, HELLO, progress=progress, cancel=cancel)
        assert (result.finish, result.error) == ("cancelled", None)
        assert provider.tracker.total.cancelled == 1

    run(scenario())


def test_a_cancel_that_comes_too_late_changes_nothing() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        async with talking(streamed()) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO, cancel=cancel)
            cancel.set()
        assert result.finish == "stop"

    run(scenario())


# Failures

THOUGHT = streams.response(
    [
        {"type": "response.reasoning.delta", "item_id": "rs_1", "delta": "Hm."},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
    ],
    [],
)
FAILED = [
    *HELLO_STREAM[:5],
    {
        "type": "response.failed",
        "sequence_number": 5,
        "response": {
            "id": "resp_1",
            "status": "failed",
            "error": {"code": "server_error", "message": "boom"},
        },
    },
]
OVERFLOW = "maximum context length is 1000 tokens. However, your messages resulted in 1234 tokens"
FAILURES: dict[str, tuple[Any, type[OpenResponsesError], str, bool]] = {
    "overflow": (refused(400, "context_length_exceeded", OVERFLOW), ContextOverflowError, "1000", False),
    "rate limit": (
        refused(429, "rate_limit_exceeded", "slow", retry_after="99"),
        RateLimitError,
        "slow",
        False,
    ),
    "empty": (streamed(streams.response([], [])), ProtocolError, "no answer", False),
    "thinking only": (streamed(THOUGHT), ProtocolError, "only reasoning", False),
    "fails on the way": (streamed(FAILED), ServerError, "boom", True),
    "cut": ([send(CHUNKED_HEAD + chunk(sse(HELLO_STREAM[:5]))), cut], NetworkError, "broke", True),
}


@pytest.mark.parametrize(("script", "kind", "words", "spoke"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_is_raised_and_what_came_before_it_stays(
    script: Any, kind: type[OpenResponsesError], words: str, spoke: bool
) -> None:
    async def scenario() -> None:
        heard = Heard()
        async with talking(script, retries=0, resumes=0) as (provider, _):
            with pytest.raises(kind, match=words) as raised:
                await provider.provide_response(MODEL, HELLO, progress=heard)
        assert heard.text == ("Hello, " if spoke else "")
        (request,) = provider.tracker.recent
        assert (request.outcome, provider.tracker.total.failed) == ("failed", 1)
        assert words in request.error
        if kind is ContextOverflowError:
            assert (raised.value.limit_tokens, raised.value.used_tokens) == (1000, 1234)

    run(scenario())


def test_a_request_that_was_refused_has_used_nothing() -> None:
    async def scenario() -> None:
        async with talking(refused(400, "bad", "no")) as (provider, _):
            with pytest.raises(OpenResponsesError):
                await provider.provide_response(MODEL, HELLO)
        assert provider.tracker.total.tokens.input == 0

    run(scenario())


@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_can_be_shown_as_text_too(failure: str) -> None:
    script, kind, words, _ = FAILURES[failure]

    async def scenario() -> None:
        heard = Heard()
        host = Host(errors_as_text=True)
        async with talking(script, host=host, retries=0, resumes=0) as (provider, _):
            with pytest.raises(kind):
                await provider.provide_response(MODEL, HELLO, progress=heard)
        assert heard.text.count("**Error:**") == 1
        assert words in heard.text

    run(scenario())


def test_what_goes_wrong_on_our_side_is_a_failure_too() -> None:
    async def scenario() -> None:
        def progress(_: Part) -> None:
            raise LookupError("no such window")

        async with talking([send(head() + sse(HELLO_STREAM[:5])), stall]) as (provider, server):
            with pytest.raises(LookupError):
                await provider.provide_response(MODEL, HELLO, progress=progress)
            await server.hung_up()
        assert provider.tracker.total.failed == 1

    run(scenario())


def test_half_a_character_in_a_message_is_no_reason_to_fail() -> None:
    async def scenario() -> None:
        call = ToolCallPart("gw-1", "look", {"at": "\ud83d"})
        messages = [user("cut \ud83d"), ChatMessage(Role.ASSISTANT, [call]), user("on")]
        async with talking(streamed()) as (provider, server):
            await provider.provide_response(MODEL, messages)
        sent = server.asked[0].json["input"]
        assert sent[0]["content"][0]["text"] == "cut \ufffd"
        assert sent[1]["arguments"] == '{"at":"\ufffd"}'

    run(scenario())


# Usage and state


def test_usage_and_cost_are_the_endpoints() -> None:
    async def scenario() -> None:
        usage = {
            "input_tokens": 1000,
            "output_tokens": 100,
            "total_tokens": 1100,
            "input_tokens_details": {"cached_tokens": 600},
            "output_tokens_details": {"reasoning_tokens": 40},
        }
        async with talking(streamed(text_stream("Yes.", usage))) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO)
        assert result.usage is not None
        (request,) = provider.tracker.recent
        assert (request.is_estimate, request.max_input) == (False, 800)
        tokens = request.tokens
        assert (tokens.input, tokens.output, tokens.cached, tokens.reasoning) == (1000, 100, 600, 40)
        assert request.cost == pytest.approx((400 * 2 + 600 * 0.5 + 100 * 10) / 1e6)

    run(scenario())


def test_the_counter_learns_from_what_was_really_used() -> None:
    async def scenario() -> None:
        usage = {"input_tokens": 400, "output_tokens": 1, "total_tokens": 401}
        scripts = [streamed(text_stream("Yes.", usage)) for _ in range(3)]
        async with talking(*scripts) as (provider, _):
            for _ in scripts:
                await provider.provide_response(MODEL, [user("word " * 100)])
        first, _, third = (request.estimated_input for request in provider.tracker.recent)
        assert abs(third - 400) < abs(first - 400) / 4

    run(scenario())


def test_providers_may_share_a_tracker() -> None:
    async def scenario() -> None:
        tracker = UsageTracker()
        async with asking(streamed(), streamed()) as (client, _):
            providers = [
                LanguageModelProvider(client, ModelDirectory(Listed()), tracker=tracker) for _ in range(2)
            ]
            await asyncio.gather(*(each.provide_response(MODEL, HELLO) for each in providers))
        assert (tracker.total.requests, tracker.total.tokens.input) == (2, 18)

    run(scenario())


def test_everything_that_is_sent_is_in_the_estimate() -> None:
    async def scenario() -> None:
        prompted = ResponseOptions({"system_prompt": "Answer in one word."}, [LOOK])
        async with talking(streamed(), streamed()) as (provider, _):
            await provider.provide_response(MODEL, HELLO)
            await provider.provide_response(MODEL, HELLO, prompted)
        bare, full = (request.estimated_input for request in provider.tracker.recent)
        counted = provider.counter.count_tools(MODEL, [LOOK])
        assert full - bare >= counted + provider.provide_token_count(MODEL, "Answer in one word.")

    run(scenario())


def test_without_usage_the_figures_are_estimates() -> None:
    async def scenario() -> None:
        async with talking(streamed(text_stream("Yes, of course.", None))) as (provider, _):
            result = await provider.provide_response(MODEL, HELLO)
        assert result.usage is None
        (request,) = provider.tracker.recent
        assert request.is_estimate
        assert request.tokens.output == provider.provide_token_count(MODEL, "Yes, of course.")

    run(scenario())


def test_the_editor_gets_usage_and_a_marker_where_it_wants_them() -> None:
    async def scenario() -> None:
        heard = Heard()
        host = Host(usage_parts=True, markers=True, endpoint="http://here/v1")
        async with talking(streamed(), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=heard)
        usage, marker = heard.parts[-2:]
        assert isinstance(usage, DataPart)
        assert json.loads(usage.data) == {
            "prompt_tokens": 9,
            "completion_tokens": 12,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        told = [*HELLO, ChatMessage(Role.ASSISTANT, [TextPart(heard.text)])]
        assert marker == marker_part(MODEL, "http://here/v1", "resp_1", history=history_of(told))

    run(scenario())


@pytest.mark.parametrize(("thinking", "kinds"), [(None, ["part"]), ("text", ["text"]), ("none", [])])
def test_a_response_may_have_its_own_way_of_thinking(thinking: Any, kinds: list[str]) -> None:
    async def scenario() -> None:
        heard = Heard()
        thought = {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."}
        said, message = streams.message("msg_1", 1, ["A ship."])
        events = streams.response([thought, *said], [message])
        async with talking(streamed(events)) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=heard, thinking=thinking)
        thoughts = [part for part in heard.parts if "Hm." in str(getattr(part, "value", ""))]
        assert ["part" if isinstance(part, ThinkingPart) else "text" for part in thoughts] == kinds
        assert "A ship." in heard.text

    run(scenario())


def _ends(**changes: Any) -> list[streams.Event]:
    """A lawful stream whose terminal response says something else."""
    *events, last = HELLO_STREAM
    return [*events, {**last, "response": {**last["response"], **changes}}]


def _malformed() -> list[streams.Event]:
    said, message = streams.message("msg_1", 0, ["Let me see."])
    broken, call = streams.call("1", 1, "look", ["{"])
    return streams.response([*said, *broken], [message, call])


NOT_MARKED = {
    "not stored": _ends(store=False),
    "incomplete": [
        *HELLO_STREAM[:-1],
        {
            **_ends(status="incomplete", incomplete_details={"reason": "max_output_tokens"})[-1],
            "type": "response.incomplete",
        },
    ],
    "with a call that the editor never got": _malformed(),
}


@pytest.mark.parametrize("events", NOT_MARKED.values(), ids=NOT_MARKED.keys())
def test_a_response_that_cannot_be_followed_has_no_marker(events: list[streams.Event]) -> None:
    async def scenario() -> None:
        heard = Heard()
        host = Host(markers=True, endpoint="http://here/v1")
        async with talking(streamed(events), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=heard)
        assert heard.text
        assert not [part for part in heard.parts if isinstance(part, DataPart)]

    run(scenario())


def test_a_follow_up_under_other_instructions_says_everything_again() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        heard = Heard()
        system = ChatMessage(Role.SYSTEM, [TextPart("Be brief.")])
        async with talking(streamed(), streamed(), streamed(), host=host) as (provider, server):
            options = ResponseOptions({"system_prompt": "Be kind."})
            await provider.provide_response(MODEL, [system, *HELLO], options, heard)
            said = ChatMessage(Role.ASSISTANT, heard.parts)
            await provider.provide_response(MODEL, [system, *HELLO, said, user("On.")], options)
            await provider.provide_response(MODEL, [system, *HELLO, said, user("On.")])
        follow_up, changed = (asked.json for asked in server.asked[1:])
        assert follow_up["previous_response_id"] == "resp_1"
        assert "previous_response_id" not in changed

    run(scenario())


HOSTS: dict[str, tuple[Host, str]] = {
    "thinking as parts": (Host(), "Yes."),
    "thinking as text": (Host(thinking="text"), "Hm.\n\nYes."),
    "no thinking": (Host(thinking="none"), "Yes."),
    "links": (Host(annotations=True), "Yes. [Met](https://met.example/)"),
}


@pytest.mark.parametrize(("host", "text"), HOSTS.values(), ids=HOSTS.keys())
def test_the_host_says_what_it_can_show(host: Host, text: str) -> None:
    said, item = streams.message("msg_1", 1, ["Yes."])
    cited = {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1",
        "output_index": 1,
        "annotation": {"type": "url_citation", "url": "https://met.example/", "title": "Met"},
    }
    thought = {"type": "response.reasoning.delta", "item_id": "rs_1", "delta": "Hm."}
    events = streams.response([thought, *said[:3], cited, *said[3:]], [item])

    async def scenario() -> None:
        heard = Heard()
        async with talking(streamed(events), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=heard)
        assert heard.text == text
        has_thinking = any(isinstance(part, ThinkingPart) for part in heard.parts)
        assert has_thinking == (host.thinking == "part")

    run(scenario())


def test_the_host_says_who_the_system_is_and_what_is_logged() -> None:
    async def scenario() -> None:
        lines: list[str] = []
        async with asking(streamed(call_stream(("1", "swim", {})))) as (client, server):
            provider = LanguageModelProvider(
                client,
                ModelDirectory(Listed()),
                host=Host(system_role="developer"),
                log=lambda _, line: lines.append(line),
            )
            options = ResponseOptions({"system_prompt": "Be brief."}, [LOOK])
            result = await provider.provide_response(MODEL, HELLO, options)
        assert server.asked[0].json["input"][0]["role"] == "developer"
        assert [told.code for told in result.diagnostics] == ["undeclared_tool"]
        assert any(line.endswith("ToolCallPart") for line in lines)

    run(scenario())


def test_a_host_without_markers_gets_none_and_follows_none() -> None:
    async def scenario() -> None:
        heard = Heard()
        host = Host(endpoint="http://here/v1")
        said = ChatMessage(Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hi.")])
        async with talking(streamed(), host=host) as (provider, server):
            await provider.provide_response(MODEL, [*HELLO, said, user("And now?")], progress=heard)
        assert "previous_response_id" not in server.asked[0].json
        assert not [part for part in heard.parts if isinstance(part, DataPart)]

    run(scenario())


def test_a_follow_up_sends_what_is_new_and_a_lost_response_everything_once() -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        said = ChatMessage(
            Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hello yourself.")]
        )
        messages = [*HELLO, said, user("And now?")]
        lost = refused(400, "previous_response_not_found", "no such response")
        async with talking(lost, streamed(), lost, lost, host=host) as (provider, server):
            await provider.provide_response(MODEL, messages)
            short, full = (asked.json for asked in server.asked)
            assert (short["previous_response_id"], len(short["input"])) == ("resp_0", 1)
            assert ("previous_response_id" in full, len(full["input"])) == (False, 3)
            with pytest.raises(OpenResponsesError):
                await provider.provide_response(MODEL, messages)
            assert len(server.asked) == 4  # once, and not for ever

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
    "it misses an output": refused(400, "invalid_request", "No tool output found for function call x"),
    "it does not know it": refused(404, "not_found", "no such response"),
    "it says so in the stream": streamed(LOST_IN_STREAM),
    "it remembers too much": refused(
        400, "context_length_exceeded", "Input is too long for requested model."
    ),
}


@pytest.mark.parametrize("script", REFUSED_FOLLOW_UPS.values(), ids=REFUSED_FOLLOW_UPS.keys())
def test_whatever_an_endpoint_has_against_a_follow_up_everything_is_sent(script: Any) -> None:
    async def scenario() -> None:
        host = Host(markers=True, endpoint="http://here/v1")
        said = ChatMessage(Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hi.")])
        async with talking(script, streamed(), host=host) as (provider, server):
            result = await provider.provide_response(MODEL, [*HELLO, said, user("And now?")])
        assert result.finish == "stop"
        assert [("previous_response_id" in asked.json) for asked in server.asked] == [True, False]

    run(scenario())


def test_thinking_comes_back_to_the_model_in_a_tool_loop() -> None:
    async def scenario() -> None:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
        call, made = streams.call("1", 1, "look", ["{}"])
        events = streams.response([{"type": "response.output_item.done", "item": item}, *call], [item, made])
        heard = Heard()
        async with talking(streamed(events), streamed()) as (provider, server):
            options = ResponseOptions({}, [LOOK])
            await provider.provide_response(MODEL, HELLO, options, heard)
            result = ToolResultPart("gw-call_1", [TextPart("a ship")])
            messages = [
                *HELLO,
                ChatMessage(Role.ASSISTANT, heard.parts),
                ChatMessage(Role.USER, [result]),
            ]
            await provider.provide_response(MODEL, messages, options)
        assert any(isinstance(part, ThinkingPart) for part in heard.parts)
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
        async with talking() as (provider, _):
            (model,) = await provider.provide_models()
            assert (model.id, model.max_input, model.max_output) == (MODEL, 800, 200)
            assert provider.provide_token_count(MODEL, "Hello") > 0
            assert provider.provide_token_count(MODEL, HELLO[0]) > provider.provide_token_count(
                MODEL, "Hello"
            )

    run(scenario())
