"""Answers that do not come from an API are refused; mislabelled streams and documents are not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from penstock.errors import NetworkError, ProtocolError
from penstock.net.source import Inbox
from penstock.sse import without_blanks
from penstock.upstream import answer_check
from penstock.upstream.answer_check import CheckedAnswer
from penstock.upstream.attempts import FALLBACK, rule_for
from tests.client.server import CHUNKED_HEAD, Script, answer, chunk, cut, head, run, send, stall, trickle
from tests.upstream.sending import KEY, ask, read_body, sending

PAGE_HEAD = CHUNKED_HEAD.replace(b"text/event-stream", b"text/html")
STREAM = b'data: {"choices": []}\n\ndata: [DONE]\n\n'


TYPES = ["text/plain", "", "application/octet-stream", "text/html", "text/event-stream"]


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("before", [b"", b"\n\n", b"\xef\xbb\xbf", b": hello\n\n"])
def test_an_event_stream_with_any_content_type_is_passed_on(content_type: str, before: bytes) -> None:
    async def main() -> None:
        async with sending([answer(200, before + STREAM, content_type)]) as (upstream, _):
            body = await read_body(await ask(upstream))
            assert without_blanks(body) == without_blanks(before) + STREAM

    run(main())


def test_a_mislabelled_event_stream_in_single_bytes_is_passed_on() -> None:
    async def main() -> None:
        script = [send(head().replace(b"text/event-stream", b"text/plain")), trickle(STREAM)]
        async with sending(script) as (upstream, _):
            assert await read_body(await ask(upstream)) == STREAM

    run(main())


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": []}',
        b'[{"candidates": []}]',
        b'{"error": "no"}',
        b'{"detail": "Not Found"}',
        b'{"half',
        b'{"x": "' + b"y" * 9000 + b'"}',
        b"dat",
    ],
)
def test_a_document_that_may_be_an_answer_is_passed_on(body: bytes) -> None:
    async def main() -> None:
        async with sending([answer(200, body, "application/json")]) as (upstream, _):
            assert await read_body(await ask(upstream)) == body

    run(main())


NO_ANSWERS: dict[str, tuple[Any, str, str]] = {
    "a web page": (b"<html><title>Sign in</title>", "text/html", "a web page (text/html, titled “Sign in”)"),
    "a page without a type": (b"\n<!DOCTYPE html>", "", "a web page (no content type)"),
    "a page that claims to be JSON": (b"<html>", "application/json", "a web page (application/json)"),
    "a long page": (b"<html>" + b"x" * 100_000, "text/html", "a web page (text/html"),
    "text": (b"OK", "text/plain", "text (text/plain: “OK”)"),
    "an empty body": (b"", "text/html", "HTTP 200 and an empty body (text/html)"),
    "an empty body without a type": (b"", "", "HTTP 200 and an empty body (no content type)"),
    "an empty list": (b"[]", "application/json", "JSON that is not an answer (application/json: “[]”)"),
    "a word": (b'"ok"', "application/json", 'text (application/json: “"ok"”)'),
    "a health check": (
        b'{"status":"ok"}',
        "application/json",
        "JSON that is not an answer (application/json",
    ),
    "blank lines": (b"\n" * 70_000, "text/plain", "HTTP 200 and an empty body (text/plain)"),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
def test_what_is_not_an_answer_of_an_api_fails_with_its_content_type_and_the_address(kind: str) -> None:
    body, content_type, words = NO_ANSWERS[kind]

    async def main() -> None:
        async with sending([answer(200, body, content_type)]) as (upstream, server):
            with pytest.raises(ProtocolError) as caught:
                await read_body(await ask(upstream))
            assert caught.value.code == "upstream_invalid"
            assert f"the upstream returned {words}" in caught.value.message
            assert f"POST {server.url}/v1/chat/completions" in caught.value.message
            assert rule_for(caught.value) is FALLBACK

    run(main())


def test_an_answer_with_status_204_is_none() -> None:
    async def main() -> None:
        async with sending([answer(204)]) as (upstream, _):
            with pytest.raises(ProtocolError, match="HTTP 204 and an empty body"):
                await read_body(await ask(upstream))

    run(main())


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (
            [send(PAGE_HEAD + chunk(b"<html>")), cut],
            ProtocolError,
            "page",
        ),
        ([send(PAGE_HEAD), cut], NetworkError, "broke"),
        (
            [send(PAGE_HEAD + chunk(b"{")), cut],
            NetworkError,
            "broke",
        ),
    ],
)
def test_an_answer_that_breaks_is_explained_by_what_arrived(
    script: Script, kind: type[Exception], words: str
) -> None:
    async def main() -> None:
        async with sending(script) as (upstream, _):
            with pytest.raises(kind, match=words):
                await read_body(await ask(upstream))

    run(main())


def test_the_beginning_of_a_refused_answer_is_available_for_recordings() -> None:
    class Refused(Inbox):
        heads: ClassVar[list[bytes]] = []

        def failed(self, error: Exception, refused: bytes = b"") -> None:
            self.heads.append(refused)
            super().failed(error, refused)

    async def main() -> None:
        async with sending([answer(200, b"\n<html><p>Sign in", "text/html")]) as (upstream, _):
            with pytest.raises(ProtocolError, match="web page"):
                await Refused(await ask(upstream)).take()
        assert Refused.heads == [b"<html><p>Sign in"]

    run(main())


def test_no_blank_byte_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(head: bytes) -> bytes:
        sizes.append(len(head))
        return without_blanks(head)

    monkeypatch.setattr(answer_check, "without_blanks", counted)

    async def main() -> None:
        async with sending([send(PAGE_HEAD), stall]) as (upstream, _):
            answered = await ask(upstream)
            assert isinstance(answered, CheckedAnswer)
            inbox = Inbox(answered)
            for _ in range(64 * 1024):
                answered.data(b"\n")
            assert not inbox.is_ready
            answered.data(b"\n")
            with pytest.raises(ProtocolError, match="an empty body"):
                await inbox.take()
        assert sum(sizes) == 64 * 1024 + 1

    run(main())


def test_a_refused_answer_is_closed_and_shows_no_key() -> None:
    async def main() -> None:
        page = send(PAGE_HEAD + chunk(b"<p>" + KEY.encode() * 500))
        async with sending([page, stall]) as (upstream, server):
            answered = await ask(upstream, key=KEY)
            assert isinstance(answered, CheckedAnswer)
            with pytest.raises(ProtocolError) as caught:
                await Inbox(answered).take()
            assert KEY[:10] not in str(caught.value)
            await server.hung_up()

    run(main())
