"""Resuming: a broken stream continues after its last event, or the failure is raised."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import NetworkError, NotFoundError, OpenResponsesError, ProtocolError
from penstock.protocol.request import CreateResponse
from tests.client.asking import QUICK, REQUEST, Clock, asking, read, read_until_failure
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    Script,
    answer,
    chunk,
    cut,
    gate,
    head,
    run,
    send,
    sse,
    stall,
    streamed,
)

ALL = list(range(11))

BREAKS: dict[str, Script] = {
    "cut": [send(CHUNKED_HEAD + chunk(sse(HELLO[:4])))],
    "closed": [send(head() + sse(HELLO[:4]))],
    "done": [send(head() + sse(HELLO[:4], done=True))],
    "idle": [send(head() + sse(HELLO[:4])), stall],
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_stream_is_resumed_after_the_last_event(broken: Script) -> None:
    async def main() -> None:
        clock = Clock()
        async with asking(broken, streamed(HELLO[4:]), clock=clock, idle_timeout=QUICK) as (client, server):
            stream = client.stream(REQUEST)
            assert await read_until_failure(stream) == (ALL, None)
            assert stream.last_sequence == 10
            assert [(asked.method, asked.target) for asked in server.asked] == [
                ("POST", "/v1/responses"),
                ("GET", "/v1/responses/resp_1?stream=true&starting_after=3"),
            ]
            assert server.asked[1].headers["accept"] == "text/event-stream"
        assert clock.waits == []

    run(main())


def test_a_stream_is_resumed_after_a_reset(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        broken = [send(CHUNKED_HEAD + chunk(sse(HELLO[:4]))), gate, cut]
        async with asking(broken, streamed(HELLO[4:])) as (client, server):
            stream = client.stream(REQUEST)
            first = [(await anext(stream)).sequence_number for _ in range(4)]
            server.opened.set()
            assert first + [event.sequence_number async for event in stream] == ALL

    run(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the stream broke after event 3" in caplog.text


def test_replayed_events_are_not_delivered_twice() -> None:
    async def main() -> None:
        async with asking(BREAKS["closed"], streamed(HELLO)) as (client, _):
            assert await read_until_failure(client.stream(REQUEST)) == (ALL, None)

    run(main())


def test_a_stream_may_break_after_every_event() -> None:
    async def main() -> None:
        steps = [[send(head() + sse([event]))] for event in HELLO]
        async with asking(*steps, resumes=1) as (client, server):
            assert await read_until_failure(client.stream(REQUEST)) == (ALL, None)
            assert [asked.method for asked in server.asked] == ["POST"] + ["GET"] * 10
            assert server.asked[-1].target.endswith("starting_after=9")

    run(main())


def test_attempts_without_new_events_are_counted_and_delayed() -> None:
    async def main() -> None:
        clock = Clock()
        nothing = [send(head() + sse(HELLO[:4]))]
        scripts: list[Script] = [BREAKS["closed"], nothing, [cut], [], streamed(HELLO[4:])]
        async with asking(*scripts, clock=clock, resumes=4) as (client, _):
            assert await read_until_failure(client.stream(REQUEST)) == (ALL, None)
        assert clock.waits == [0.5, 1.0, 2.0]

        async with asking(*scripts, resumes=3) as (client, server):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert numbers == [0, 1, 2, 3]
            assert isinstance(error, ProtocolError)  # the first failure, not the last
            assert isinstance(error.__cause__, NetworkError)
            assert len(server.asked) == 4

    run(main())


REFUSALS: list[tuple[Script, type[OpenResponsesError]]] = [
    ([answer(404, {"error": {"message": "no such response"}})], NotFoundError),
    ([answer(405)], OpenResponsesError),
    ([answer(400)], OpenResponsesError),
    ([answer(503)], OpenResponsesError),
    ([answer(200, HELLO[-1]["response"])], ProtocolError),
    ([answer(200, b"<html>", "text/html")], ProtocolError),
    ([answer(302, location="/")], ProtocolError),
]


@pytest.mark.parametrize(("script", "cause"), REFUSALS)
def test_the_original_failure_is_raised_if_the_stream_cannot_be_resumed(
    script: Script, cause: type[OpenResponsesError], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with asking(BREAKS["cut"], script) as (client, server):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert numbers == [0, 1, 2, 3]
            assert isinstance(error, NetworkError)
            assert error.phase == "cut"
            assert isinstance(error.__cause__, cause)
            assert len(server.asked) == 2

    run(main())
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


def without_numbers(events: list[Any]) -> list[Any]:
    return [{name: value for name, value in event.items() if name != "sequence_number"} for event in events]


NEVER: dict[str, tuple[dict[str, Any], dict[str, Any], list[Any]]] = {
    "not stored": ({"store": False}, {}, HELLO[:4]),
    "not wanted": ({}, {"resumes": 0}, HELLO[:4]),
    "no numbers": ({}, {}, without_numbers(HELLO[:4])),
    "one number for all": ({}, {}, [{**event, "sequence_number": 0} for event in HELLO[:4]]),
    "no id": ({}, {}, HELLO[2:4]),
}


@pytest.mark.parametrize(("changes", "settings", "events"), NEVER.values(), ids=NEVER.keys())
def test_a_stream_that_cannot_be_resumed_safely_is_not_resumed(
    changes: dict[str, Any], settings: dict[str, Any], events: list[Any]
) -> None:
    async def main() -> None:
        request = CreateResponse(model="m", input="Hello", **changes)
        async with asking([send(head() + sse(events))], **settings) as (client, server):
            numbers, error = await read_until_failure(client.stream(request))
            assert len(numbers) == len(events)
            assert isinstance(error, ProtocolError)
            assert (error.code, error.__cause__) == ("stream_truncated", None)
            assert len(server.asked) == 1

    run(main())


def test_a_heartbeat_needs_no_sequence_number() -> None:
    async def main() -> None:
        alive = {"type": "keepalive"}
        broken = [send(head() + sse([*HELLO[:4], alive]))]
        async with asking(broken, streamed([alive, *HELLO[4:]])) as (client, _):
            received = await read(client.stream(REQUEST))
            assert [event.type for event in received].count("keepalive") == 1
            assert len(received) == 12

    run(main())


# `resume`, for streams that another request started.


def test_resume_reads_from_the_beginning_or_after_an_event() -> None:
    async def main() -> None:
        async with asking(streamed(), streamed(), streamed(HELLO[6:])) as (client, server):
            assert await read_until_failure(client.resume("resp/1")) == (ALL, None)
            for _ in range(2):  # a server that ignores `starting_after`, and one that supports it
                stream = client.resume("resp_1", starting_after=5)
                assert (stream.response_id, stream.last_sequence) == ("resp_1", 5)
                assert await read_until_failure(stream) == (ALL[6:], None)
            assert [asked.target for asked in server.asked] == [
                "/v1/responses/resp%2F1?stream=true",
                "/v1/responses/resp_1?stream=true&starting_after=5",
                "/v1/responses/resp_1?stream=true&starting_after=5",
            ]

    run(main())


def test_resume_is_retried_and_resumed() -> None:
    async def main() -> None:
        clock = Clock()
        scripts = [[answer(503)], [send(head() + sse(HELLO[:8]))], streamed(HELLO)]
        async with asking(*scripts, clock=clock) as (client, server):
            assert await read_until_failure(client.resume("resp_1", starting_after=5)) == (ALL[6:], None)
            assert server.asked[-1].target.endswith("starting_after=7")
        assert clock.waits == [0.5]

    run(main())


def test_an_unknown_response_cannot_be_resumed() -> None:
    async def main() -> None:
        async with asking([answer(404, {"error": {"message": "no such response"}})]) as (client, _):
            with pytest.raises(NotFoundError, match="no such response"):
                await read(client.resume("resp_1", starting_after=5))

    run(main())
