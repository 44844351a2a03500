"""One response on its way to the editor: pace, cancellation, usage, markers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.errors import ServerError
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
)
from penstock.parts.tracing import trace_line
from penstock.provider.editor_turn import Host, HostSettings
from penstock.provider.options import ResponseOptions
from penstock.provider.provider import LanguageModelProvider
from tests.cli import streams
from tests.client.asking import asking
from tests.client.server import HELLO as HELLO_STREAM
from tests.client.server import head, run, send, sse, stall, streamed
from tests.provider.failing_endpoints import FAILED, FAILURES
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    ModelList,
    ReceivedParts,
    call_stream,
    scripted_provider,
    user,
)

LOOK = ChatTool("look", "Look somewhere", {"type": "object", "properties": {"at": {"type": "string"}}})


def test_a_slow_reporter_delays_the_next_part() -> None:
    async def scenario() -> None:
        order: list[str] = []

        async def progress(_: Part) -> None:
            order.append("begin")
            await asyncio.sleep(0)
            order.append("end")

        async with scripted_provider(streamed()) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=progress)
        assert order == ["begin", "end"] * 3

    run(scenario())


# Cancellation


def test_cancel_closes_the_connection_and_returns_the_partial_result() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        received: list[Part] = []

        def progress(part: Part) -> None:
            received.append(part)
            cancel.set()

        async with scripted_provider([send(head() + sse(HELLO_STREAM[:6])), stall]) as (provider, server):
            result = await provider.provide_response(MODEL, HELLO, progress=progress, cancel=cancel)
            await server.hung_up()
        assert received == [TextPart("Hello, ")]  # the same read contains a second text, after the cancel
        assert (result.finish, result.error) == ("cancelled", None)
        assert provider.tracker.total.cancelled == 1
        (request,) = provider.tracker.recent
        assert request.is_estimate
        assert request.tokens.input > 0
        assert request.tokens.output > 0

    run(scenario())


def test_cancel_in_the_middle_of_a_call_delivers_no_call() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        received = ReceivedParts()
        events = call_stream(("1", "look", {"at": "sea"}))
        async with scripted_provider([send(head() + sse(events[:4])), stall]) as (provider, server):
            turn = asyncio.create_task(
                provider.provide_response(MODEL, HELLO, ResponseOptions({}, [LOOK]), received, cancel)
            )
            while not server.asked:
                await asyncio.sleep(0.001)
            cancel.set()
            result = await turn
            await server.hung_up()
        assert (received.parts, result.finish) == ([], "cancelled")

    run(scenario())


def test_a_cancelled_task_is_counted_and_closes_the_connection() -> None:
    async def scenario() -> None:
        started = asyncio.Event()
        async with scripted_provider([send(head() + sse(HELLO_STREAM[:5])), stall]) as (provider, server):
            progress = lambda part: started.set()  # noqa: ARG005, E731
            turn = asyncio.create_task(provider.provide_response(MODEL, HELLO, progress=progress))
            await started.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await server.hung_up()
        assert provider.tracker.total.cancelled == 1

    run(scenario())


def test_an_error_after_a_cancel_is_not_a_failure() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        async with scripted_provider(streamed(FAILED)) as (provider, _):
            progress = lambda part: cancel.set()  # noqa: ARG005, E731
            result = await provider.provide_response(MODEL, HELLO, progress=progress, cancel=cancel)
        assert (result.finish, result.error) == ("cancelled", None)
        assert provider.tracker.total.cancelled == 1

    run(scenario())


@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_can_be_reported_as_text(failure: str) -> None:
    script, kind, message_part, _ = FAILURES[failure]

    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(errors_as_text=True)
        async with scripted_provider(script, host=host, retries=0, resumes=0) as (provider, _):
            with pytest.raises(kind):
                await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text.count("**Error:**") == 1
        assert message_part in received.text

    run(scenario())


def test_usage_and_marker_parts_are_reported_if_enabled() -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(usage_parts=True, markers=True, endpoint="http://here/v1")
        async with scripted_provider(streamed(), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=received)
        usage, marker = received.parts[-2:]
        assert isinstance(usage, DataPart)
        assert json.loads(usage.data) == {
            "prompt_tokens": 9,
            "completion_tokens": 12,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        conversation = [*HELLO, ChatMessage(Role.ASSISTANT, [TextPart(received.text)])]
        assert marker == marker_part(MODEL, "http://here/v1", "resp_1", history=history_of(conversation))

    run(scenario())


@pytest.mark.parametrize(("thinking", "kinds"), [(None, ["part"]), ("text", ["text"]), ("none", [])])
def test_a_response_can_override_the_thinking_mode(thinking: Any, kinds: list[str]) -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        thought = {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."}
        text, message = streams.message("msg_1", 1, ["A ship."])
        events = streams.response([thought, *text], [message])
        async with scripted_provider(streamed(events)) as (provider, _):
            await provider.provide_response(
                MODEL, HELLO, progress=received, settings=HostSettings(thinking=thinking)
            )
        thoughts = [part for part in received.parts if "Hm." in str(getattr(part, "value", ""))]
        assert ["part" if isinstance(part, ThinkingPart) else "text" for part in thoughts] == kinds
        assert "A ship." in received.text

    run(scenario())


def _ends(**changes: Any) -> list[streams.Event]:
    """Return a lawful stream with a changed terminal response."""
    *events, last = HELLO_STREAM
    return [*events, {**last, "response": {**last["response"], **changes}}]


def _malformed() -> list[streams.Event]:
    text, message = streams.message("msg_1", 0, ["Let me see."])
    broken, call = streams.call("1", 1, "look", ["{"])
    return streams.response([*text, *broken], [message, call])


NOT_MARKED = {
    "not stored": _ends(store=False),
    "incomplete": [
        *HELLO_STREAM[:-1],
        {
            **_ends(status="incomplete", incomplete_details={"reason": "max_output_tokens"})[-1],
            "type": "response.incomplete",
        },
    ],
    "with a call that was not delivered": _malformed(),
}


@pytest.mark.parametrize("events", NOT_MARKED.values(), ids=NOT_MARKED.keys())
def test_a_response_that_cannot_be_referenced_has_no_marker(events: list[streams.Event]) -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(markers=True, endpoint="http://here/v1")
        async with scripted_provider(streamed(events), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text
        assert not [part for part in received.parts if isinstance(part, DataPart)]

    run(scenario())


def cited_stream(**fields: Any) -> list[streams.Event]:
    """Return a thought and an answer with a citation. `fields` change the terminal response."""
    written, item = streams.message("msg_1", 1, ["Yes."])
    cited = {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1",
        "output_index": 1,
        "annotation": {"type": "url_citation", "url": "https://met.example/", "title": "Met"},
    }
    thought = {"type": "response.reasoning.delta", "item_id": "rs_1", "delta": "Hm."}
    events = streams.response([thought, *written[:3], cited, *written[3:]], [item])
    events[-1]["response"].update(fields)
    return events


HOSTS: dict[str, tuple[Host, str]] = {
    "thinking as parts": (Host(), "Yes."),
    "thinking as text": (Host(thinking="text"), "Hm.\n\nYes."),
    "no thinking": (Host(thinking="none"), "Yes."),
    "links in the text": (Host(citations="inline"), "Yes. [Met](https://met.example/)"),
    "links at the end": (Host(citations="end"), "Yes.\n\n---\n\n1. [Met](https://met.example/)\n"),
}


@pytest.mark.parametrize(("host", "text"), HOSTS.values(), ids=HOSTS.keys())
def test_the_host_decides_how_thinking_and_links_are_reported(host: Host, text: str) -> None:
    events = cited_stream()

    async def scenario() -> None:
        received = ReceivedParts()
        async with scripted_provider(streamed(events), host=host) as (provider, _):
            await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text == text
        has_thinking = any(isinstance(part, ThinkingPart) for part in received.parts)
        assert has_thinking == (host.thinking == "part")

    run(scenario())


@pytest.mark.parametrize("citations", ["inline", "end"])
def test_links_are_not_counted_as_generated_tokens(citations: Any) -> None:
    async def scenario() -> None:
        counts: list[int] = []
        for setting in ("off", citations):
            received = ReceivedParts()
            settings = HostSettings(citations=setting)
            async with scripted_provider(streamed(cited_stream(usage=None))) as (provider, _):
                await provider.provide_response(MODEL, HELLO, progress=received, settings=settings)
            (request,) = provider.tracker.recent
            assert request.is_estimate
            counts.append(request.tokens.output)
        assert "(https://met.example/)" in received.text
        assert counts[0] == counts[1] > 0

    run(scenario())


def test_the_settings_of_a_turn_override_those_of_the_host() -> None:
    host = Host(thinking="text", citations="end", markers=True)
    assert HostSettings().applied_to(host) == host
    chosen = HostSettings(thinking="none", citations="off", errors_as_text=True, system_role="developer")
    assert chosen.applied_to(host) == Host(
        thinking="none", citations="off", errors_as_text=True, system_role="developer", markers=True
    )
    assert not HostSettings(errors_as_text=False).applied_to(Host(errors_as_text=True)).errors_as_text


def test_an_error_as_text_is_described_by_the_host() -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(errors_as_text=True, describe_error=lambda error, model: f"{model}: {error.code}")
        async with scripted_provider(streamed(FAILED), host=host) as (provider, _):
            with pytest.raises(ServerError):
                await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text.endswith(f"\n\n**Error:** {MODEL}: server_error\n\n")

    run(scenario())


def test_an_error_as_text_is_not_part_of_the_code_block_that_it_cut_off() -> None:
    text, _ = streams.message("msg_1", 0, ["```py\nx = 1"])
    events = [*streams.response([], [])[:2], *text[:3], FAILED[-1]]

    async def scenario() -> None:
        received = ReceivedParts()
        async with scripted_provider(streamed(events), host=Host(errors_as_text=True)) as (provider, _):
            with pytest.raises(ServerError):
                await provider.provide_response(MODEL, HELLO, progress=received)
        assert received.text.startswith("```py\nx = 1\n```\n\n**Error:** ")

    run(scenario())


def test_a_follow_up_that_fails_in_the_stream_is_repeated_before_its_error_is_text() -> None:
    lost = {"code": "previous_response_not_found", "message": "gone"}
    failed = {"type": "response.failed", "response": {"id": "resp_2", "status": "failed", "error": lost}}

    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(errors_as_text=True, markers=True, endpoint="http://here/v1")
        marker = marker_part(MODEL, "http://here/v1", "resp_1")
        talk = [*HELLO, ChatMessage(Role.ASSISTANT, [marker, TextPart("Hi.")]), user("And now?")]
        scripts = (streamed(streams.numbered([failed])), streamed())
        async with scripted_provider(*scripts, host=host) as (provider, server):
            await provider.provide_response(MODEL, talk, progress=received)
        assert ["previous_response_id" in asked.json for asked in server.asked] == [True, False]
        assert "**Error:**" not in received.text

    run(scenario())


def test_a_turn_traces_its_events_and_its_own_parts() -> None:
    async def scenario() -> None:
        lines: list[str] = []
        host = Host(usage_parts=True, markers=True, endpoint="http://here/v1")
        async with scripted_provider(streamed(), host=host) as (provider, _):
            await provider.provide_response(
                MODEL, HELLO, trace=lambda event, parts: lines.append(trace_line(event, parts))
            )
        assert len(lines) == len(HELLO_STREAM) + 1
        assert lines[0] == "0 response.created resp_1 -> nothing"
        assert lines[-1].startswith("end of the stream -> data usage ")
        assert ", data stateful_marker " in lines[-1]

    run(scenario())


def test_the_host_sets_the_system_role_and_the_log_gets_warnings() -> None:
    async def scenario() -> None:
        lines: list[str] = []
        async with asking(streamed(call_stream(("1", "swim", {})))) as (client, server):
            provider = LanguageModelProvider(
                client,
                ModelDirectory(ModelList()),
                host=Host(system_role="developer"),
                log=lambda _, line: lines.append(line),
            )
            options = ResponseOptions({"system_prompt": "Be brief."}, [LOOK])
            result = await provider.provide_response(MODEL, HELLO, options)
        assert server.asked[0].json["input"][0]["role"] == "developer"
        assert [diagnostic.code for diagnostic in result.diagnostics] == ["undeclared_tool"]
        assert lines == ["undeclared_tool: the model called 'swim', which was not offered"]

    run(scenario())


def test_without_markers_none_are_reported_or_used() -> None:
    async def scenario() -> None:
        received = ReceivedParts()
        host = Host(endpoint="http://here/v1")
        answer = ChatMessage(
            Role.ASSISTANT, [marker_part(MODEL, "http://here/v1", "resp_0"), TextPart("Hi.")]
        )
        async with scripted_provider(streamed(), host=host) as (provider, server):
            await provider.provide_response(MODEL, [*HELLO, answer, user("And now?")], progress=received)
        assert "previous_response_id" not in server.asked[0].json
        assert not [part for part in received.parts if isinstance(part, DataPart)]

    run(scenario())
