"""Reading one response as events: what is delivered, what is skipped, and what is not a stream."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from penstock.client import event_reader
from penstock.client.surrogates import SurrogateJoiner
from penstock.dialects.recognition import FORMATS
from penstock.dialects.registry import RENDERED
from penstock.errors import (
    AuthenticationError,
    InvalidRequestError,
    OpenResponsesError,
    OverloadedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.net.answer import HttpAnswer
from penstock.net.masking import Secrets
from penstock.net.urls import read_address
from penstock.net.wrong_addresses import RequestLine
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.protocol.events import ErrorEvent, LifecycleEvent, UnknownEvent
from penstock.sse import Decoder
from tests.cli import streams
from tests.client.asking import KEY, REQUEST, asking, read, read_until_failure, texts_of_exception
from tests.client.server import (
    HELLO,
    answer,
    head,
    run,
    send,
    sse,
    stall,
    streamed,
    trickle,
)
from tests.dialects.format_samples import BODIES, STREAMS
from tests.dialects.format_samples import sse as other_format


@pytest.mark.parametrize("end", ["response.cancelled", "response.done"])
def test_other_names_of_terminal_events_end_the_stream(end: str) -> None:
    async def main() -> None:
        events = [*HELLO[:-1], {**HELLO[-1], "type": end}]
        async with asking(streamed(events)) as (client, _):
            assert [event.type for event in await read(client.stream(REQUEST))][-1] == end

    run(main())


def test_a_stream_that_arrives_byte_by_byte_is_the_same_stream() -> None:
    async def main() -> None:
        body = b"\xef\xbb\xbf\r\n: hello\n\n" + sse(HELLO).replace(b"\n", b"\r\n")
        async with asking([trickle(head(content_type="") + body)]) as (client, _):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert (numbers, error) == (list(range(11)), None)

    run(main())


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json", "TEXT/Event-Stream; charset=utf-8"])
def test_a_stream_is_recognized_whatever_its_content_type(kind: str) -> None:
    async def main() -> None:
        async with asking([send(head(content_type=kind) + sse(HELLO))]) as (client, _):
            assert len(await read(client.stream(REQUEST))) == 11

    run(main())


@pytest.mark.parametrize("type", ["response.incomplete", "response.failed"])
def test_other_terminal_events_end_the_stream(type: str) -> None:
    async def main() -> None:
        end = {**HELLO[-1], "type": type, "response": streams.snapshot(type.partition(".")[2], [])}
        async with asking([send(head() + sse([*HELLO[:-1], end])), stall]) as (client, server):
            assert (await read(client.stream(REQUEST)))[-1].type == type
            await server.hung_up()

    run(main())


def test_invalid_events_are_skipped_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        garbage = b"data: {not json\n\ndata: 17\n\ndata: {}\n\nevent: ping\n\n: comment\n\n"
        body = sse(HELLO[:4]) + garbage + sse(HELLO[4:]) + b"data: after the end\n\n"
        async with asking([send(head() + body)]) as (client, _):
            stream = client.stream(REQUEST)
            assert len(await read(stream)) == 11
            assert stream.skipped == 3

    run(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert "skipped an invalid event: not valid JSON" in caplog.text


def test_a_stream_of_garbage_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with asking([send(head() + b"data: x\n\n" * 1000 + sse(HELLO))]) as (client, _):
            stream = client.stream(REQUEST)
            assert len(await read(stream)) == 11
            assert stream.skipped == 1000

    run(main())
    assert len(caplog.records) == 10


def test_the_type_of_an_event_may_be_in_the_frame_only() -> None:
    async def main() -> None:
        untyped = [{name: value for name, value in event.items() if name != "type"} for event in HELLO]
        frames = [
            f"event: {event['type']}\ndata: {json.dumps(bare)}\n\n"
            for event, bare in zip(HELLO, untyped, strict=True)
        ]
        async with asking([send(head() + "".join(frames).encode())]) as (client, _):
            assert [event.type for event in await read(client.stream(REQUEST))] == [e["type"] for e in HELLO]

    run(main())


def test_an_unknown_event_is_delivered() -> None:
    async def main() -> None:
        unknown = {"type": "vendor.keepalive", "more": 1}
        async with asking([send(head() + sse([*HELLO[:2], unknown, *HELLO[2:]]))]) as (client, _):
            received = await read(client.stream(REQUEST))
            assert isinstance(received[2], UnknownEvent)
            assert len(received) == 12

    run(main())


NOT_A_STREAM = "instead of an event stream for POST .*/v1/responses"
NOT_STREAMS: list[tuple[Any, type[OpenResponsesError], str]] = [
    (
        answer(200, b"<html><p>Sign in", "text/html"),
        ProtocolError,
        r"a web page \(text/html, titled “Sign in”\) instead of an event stream for POST .*: ",
    ),
    (
        answer(200, b"<html><p>Sign in", "text/event-stream"),
        ProtocolError,
        NOT_A_STREAM,
    ),
    (answer(200, b"dat", "text/plain"), ProtocolError, NOT_A_STREAM),
    (
        answer(200, b"\x00\xff\xfe" * 99, ""),
        ProtocolError,
        r"returned text \(no content type: .* instead of an event stream",
    ),
    (answer(200, b"upstream connect error", "text/event-stream"), ProtocolError, "body without events"),
    (answer(200, HELLO[-1]["response"]), ProtocolError, "complete response: it does not stream"),
    (
        answer(200, b'{"half', "application/json"),
        ProtocolError,
        NOT_A_STREAM,
    ),
    (
        answer(200, b"[1]", "text/event-stream"),
        ProtocolError,
        NOT_A_STREAM,
    ),
    (
        answer(200, {"error": {"message": "bad key", "code": "invalid_api_key"}}),
        AuthenticationError,
        "bad key",
    ),
    (answer(200, b'{"error": "no"}', "text/event-stream"), ServerError, "no"),
    (answer(302, location="https://other"), ProtocolError, "not followed"),
    (answer(400, {"error": {"message": "no", "param": "input"}}), InvalidRequestError, "no"),
]


@pytest.mark.parametrize(("step", "kind", "message"), NOT_STREAMS)
def test_a_body_that_is_not_a_stream_is_reported_without_a_retry(
    step: Any, kind: type[OpenResponsesError], message: str
) -> None:
    async def main() -> None:
        async with asking([step], retries=0 if kind is ServerError else 2) as (client, server):
            with pytest.raises(kind, match=message):
                await read(client.stream(REQUEST))
            assert len(server.asked) == 1

    run(main())


def test_blank_lines_before_the_first_event_are_accepted() -> None:
    async def main() -> None:
        body = b"\n" * 1000 + b"\xef\xbb\xbf" + b" \r\n" * 10_000 + sse(HELLO)
        async with asking([send(head() + body)]) as (client, _):
            assert len(await read(client.stream(REQUEST))) == 11

    run(main())


def test_an_endless_body_of_blank_lines_is_refused() -> None:
    async def main() -> None:
        async with asking([send(head()), *[send(b"\n" * 1000)] * 70, stall]) as (client, server):
            with pytest.raises(
                ProtocolError, match=r"an empty body \(text/event-stream\) instead of an event stream"
            ) as caught:
                await read(client.stream(REQUEST))
            assert caught.value.code == "no_event_stream"
            await server.hung_up()
            assert len(server.asked) == 1

    run(main())


def test_a_too_large_event_ends_the_stream_after_the_events_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_reader, "Decoder", lambda: Decoder(limit=4096))

    async def main() -> None:
        body = sse(HELLO[:2]) + b"data: " + b"x" * 8192
        async with asking([send(head() + body), stall]) as (client, server):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert numbers == [0, 1]
            assert isinstance(error, ProtocolError)
            assert error.code == "frame_too_large"
            assert len(server.asked) == 1
            await server.hung_up()

    run(main())


def test_an_error_event_is_delivered_and_raised_if_no_end_follows() -> None:
    async def main() -> None:
        error_event = {
            "type": "error",
            "sequence_number": 2,
            "code": "my_word",
            "message": "Overloaded",
            "param": None,
        }
        async with asking([send(head() + sse([*HELLO[:2], error_event]))]) as (client, server):
            stream = client.stream(REQUEST)
            received = [await anext(stream) for _ in range(3)]
            assert isinstance(received[2], ErrorEvent)
            with pytest.raises(OverloadedError, match="Overloaded") as caught:
                await anext(stream)
            assert caught.value.code == "my_word"
            assert len(server.asked) == 1  # the server has reported the reason: the stream is not resumed

    run(main())


def test_a_bare_error_in_a_frame_is_an_error_event() -> None:
    async def main() -> None:
        body = b'data: {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}\n\n'
        async with asking([send(head() + body)]) as (client, _):
            stream = client.stream(REQUEST)
            assert isinstance(await anext(stream), ErrorEvent)
            with pytest.raises(RateLimitError, match="Rate limit reached"):
                await anext(stream)

    run(main())


def test_an_error_event_before_the_end_is_not_raised() -> None:
    async def main() -> None:
        end = {**HELLO[-1], "type": "response.failed", "sequence_number": 3}
        error_event = {"type": "error", "sequence_number": 2, "message": "oh"}
        async with asking([send(head() + sse([*HELLO[:2], error_event, end]))]) as (client, _):
            assert [event.type for event in await read(client.stream(REQUEST))][2:] == [
                "error",
                "response.failed",
            ]

    run(main())


KEY_MESSAGE = f"Bearer {KEY} is not a key"

SNAPSHOT = {**streams.snapshot("failed", []), "output": [], "error": {"code": "no", "message": KEY_MESSAGE}}

EVENTS_WITH_THE_KEY: list[dict[str, Any]] = [
    {"type": "error", "sequence_number": 2, "code": KEY, "message": KEY_MESSAGE, "param": KEY},
    {"type": "error", "sequence_number": 2, "error": {"message": KEY_MESSAGE, KEY: [{"more": KEY}]}},
    {"type": "error", "sequence_number": 2, "message": KEY_MESSAGE + " \ud83d", "output": KEY},
    {"type": "response.failed", "sequence_number": 2, "response": SNAPSHOT},
    {
        "type": "response.incomplete",
        "sequence_number": 2,
        "response": {**streams.snapshot("incomplete", []), "incomplete_details": {"reason": KEY_MESSAGE}},
    },
    {"type": "response.cancelled", "sequence_number": 2, "response": SNAPSHOT, KEY: KEY},
]


@pytest.mark.parametrize("event", EVENTS_WITH_THE_KEY, ids=lambda event: str(event["type"]))
@pytest.mark.parametrize("is_escaped", [False, True])
def test_the_key_is_masked_in_events_that_report_a_failure(
    event: dict[str, Any], is_escaped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        body = sse([*HELLO[:2], event])
        if is_escaped:
            body = body.replace(b"sk-", rb"\u0073k-")
        async with asking([send(head() + body)], key=lambda: KEY) as (client, _):
            stream = client.stream(REQUEST)
            received = [await anext(stream) for _ in range(3)][2]
            assert received.type == event["type"]
            assert KEY not in repr(received)
            assert "[key]" in repr(received)
            if event["type"] == "error":
                with pytest.raises(OpenResponsesError) as caught:
                    await anext(stream)
                assert all(
                    KEY not in text and KEY[3:] not in text for text in texts_of_exception(caught.value)
                )
            adapter = OpenResponsesStreamAdapter()
            adapter.feed(received)
            error = adapter.result.error
            assert error is None or all(KEY not in text for text in texts_of_exception(error))

    caplog.set_level(logging.DEBUG)
    run(main())
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["error", "resp", "failed", "response"])
def test_a_placeholder_key_does_not_change_the_event(key: str) -> None:
    async def main() -> None:
        failed = {"type": "response.failed", "sequence_number": 2, "response": SNAPSHOT}
        async with asking([send(head() + sse([*HELLO[:2], failed]))], key=lambda: key) as (client, _):
            stream = client.stream(REQUEST)
            received = [await anext(stream) for _ in range(3)][2]
            assert isinstance(received, LifecycleEvent)
            assert received.response.error is not None
            assert received.response.error.message == KEY_MESSAGE

    run(main())


def test_a_too_deeply_nested_error_is_skipped_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        deep = b"[" * 900 + b'"%s"' % KEY.encode() + b"]" * 900
        body = sse(HELLO[:2]) + b'data: {"type": "error", "message": %s}\n\n' % deep + sse(HELLO[2:])
        async with asking([send(head() + body)], key=lambda: KEY) as (client, _):
            stream = client.stream(REQUEST)
            assert all(KEY not in repr(event) for event in [each async for each in stream])

    run(main())
    assert KEY not in caplog.text


# In process, with a response that is only a list of reads.


class Reads:
    """A response whose body is a list of reads."""

    status, request_id = 200, "req_1"
    headers: Mapping[str, str] = {}

    def __init__(self, *reads: bytes, content_type: str = "text/event-stream") -> None:
        self.reads, self.content_type = list(reads), content_type
        self.secrets = Secrets([KEY])
        url = "http://127.0.0.1:1/v1/responses"
        self.asked = RequestLine("POST", url, read_address(url))
        self.is_closed = False

    async def read(self) -> bytes:
        return self.reads.pop(0) if self.reads else b""

    async def error_body(self) -> bytes:
        body, self.reads = b"".join(self.reads), []
        return body

    def close(self) -> None:
        self.is_closed = True


def reader_of(*reads: bytes, **settings: Any) -> event_reader.EventReader:
    return event_reader.EventReader(cast(HttpAnswer, Reads(*reads, **settings)), SurrogateJoiner())


async def read_all(
    reader: event_reader.EventReader,
) -> tuple[list[tuple[str, int | None]], OpenResponsesError]:
    """Return the types and sequence numbers of all events, and the error at the end."""
    events: list[tuple[str, int | None]] = []
    while True:
        try:
            events += [(event.type, sequence) for event, sequence in await reader.read()]
        except OpenResponsesError as error:
            return events, error


STREAM = sse(HELLO[:2])


@pytest.mark.parametrize(
    "reads",
    [
        (STREAM,),
        tuple(STREAM[start : start + 1] for start in range(len(STREAM))),
        (b"\xef\xbb", b"\xbf" + STREAM),
        (b"\n\n", b"\r\n", STREAM),
        (b": heartbeat\n\n", STREAM),
        (b"retry: 5\n\n", STREAM),
        (b"id: 1\n", STREAM),
    ],
    ids=["one read", "bytes", "split BOM", "blank lines", "comment", "retry", "id"],
)
@pytest.mark.parametrize("content_type", ["text/event-stream", "", "application/json"])
def test_a_stream_is_recognized_by_its_first_bytes(reads: tuple[bytes, ...], content_type: str) -> None:
    events, error = asyncio.run(read_all(reader_of(*reads, content_type=content_type)))
    assert events == [("response.created", 0), ("response.in_progress", 1)]
    assert (error.code, error.request_id) == ("stream_truncated", "req_1")


@pytest.mark.parametrize(
    ("reads", "content_type", "code", "message"),
    [
        ((b"",), "text/html", "no_event_stream", "HTTP 200 and an empty body (text/html)"),
        ((b"",), "", "no_event_stream", "an empty body (no content type)"),
        ((b"",), "text/event-stream", "stream_truncated", "was closed before"),
        ((b"<html>", b"</html>"), "text/html", "no_event_stream", "(text/html)"),
        ((b"{", b'"object": "response"}'), "application/json", "no_event_stream", "it does not stream"),
        ((b'{"error": {"message": "oh"}}',), "text/event-stream", "server_error", "oh"),
        ((b"busy",), "text/event-stream", "no_event_stream", "body without events"),
        ((b"x",), KEY, "no_event_stream", "([key]: "),
        ((b"data: [DONE]\n\n",), "text/event-stream", "stream_truncated", "was closed before"),
    ],
)
def test_a_body_without_events_is_reported_by_what_it_is(
    reads: tuple[bytes, ...], content_type: str, code: str, message: str
) -> None:
    events, error = asyncio.run(read_all(reader_of(*reads, content_type=content_type)))
    assert events == []
    assert error.code == code
    assert message in error.message


REMEDY = "run `penstock serve --upstream URL --dialect {name}` in front of it and use that endpoint"


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "responses"])
def test_an_endpoint_that_answers_in_another_api_format_is_reported_with_a_remedy(name: str) -> None:
    events, error = asyncio.run(read_all(reader_of(b": hello\n\n", other_format(name, done=True))))
    assert (events, error.code, error.request_id) == ([], "wrong_api_format", "req_1")
    assert f"answered in another API format, {FORMATS[name].title}: " in error.message
    if name in RENDERED:
        assert error.message.endswith(REMEDY.format(name=name))
    else:
        assert error.message.endswith("`penstock serve` cannot use this format either")


@pytest.mark.parametrize("name", [name for name in BODIES if name != "responses"])
def test_a_whole_body_in_another_api_format_is_reported_with_a_remedy(name: str) -> None:
    body = json.dumps(BODIES[name][0]).encode()
    events, error = asyncio.run(read_all(reader_of(body, content_type="application/json")))
    assert (events, error.code) == ([], "wrong_api_format")
    assert FORMATS[name].title in error.message


def test_a_frame_in_another_format_is_skipped_once_the_stream_is_known() -> None:
    events, error = asyncio.run(read_all(reader_of(STREAM, other_format("chat"))))
    assert [type for type, _ in events] == ["response.created", "response.in_progress"]
    assert error.code == "stream_truncated"


def test_an_endpoint_in_another_api_format_is_not_asked_again() -> None:
    async def main() -> None:
        async with asking([send(head() + other_format("chat"))]) as (client, server):
            with pytest.raises(ProtocolError, match="Chat Completions"):
                await read(client.stream(REQUEST))
            assert len(server.asked) == 1

    run(main())


def test_a_missing_sequence_number_is_none_although_the_event_has_one() -> None:
    bare = [
        {name: value for name, value in event.items() if name != "sequence_number"} for event in HELLO[:2]
    ]
    odd = [{**HELLO[2], "sequence_number": value} for value in (True, "3")]
    events, _ = asyncio.run(read_all(reader_of(sse([*bare, *odd]))))
    assert [sequence for _, sequence in events] == [None] * len(events)
    assert len(events) >= 2


def test_nothing_is_read_after_the_terminal_event() -> None:
    events, _ = asyncio.run(read_all(reader_of(sse([*HELLO, HELLO[0]]))))
    assert [sequence for _, sequence in events] == list(range(11))


def test_closing_closes_the_response() -> None:
    response = Reads()
    event_reader.EventReader(cast(HttpAnswer, response), SurrogateJoiner()).close()
    assert response.is_closed
