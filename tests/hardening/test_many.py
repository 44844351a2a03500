"""A million of anything: items, values, headers, frames, calls, citations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.dialects.chat_streams import chunk
from tests.gateway.probes import HealthPoller
from tests.gateway.raw_sockets import answer, connect, head, post
from tests.hardening.attacked import MIB, Attacked, error_of, last_event, sends, sse

pytestmark = pytest.mark.hardening

MILLION = 1_000_000
FIELDS = '{"model": "harmless", "input": "x", '
REQUESTS: dict[str, tuple[str, Callable[[], str]]] = {
    "items": ("/v1/responses", lambda: '{"model": "harmless", "input": [' + "{}," * MILLION + "{}]}"),
    "texts as items": (
        "/v1/responses",
        lambda: '{"model": "harmless", "input": [' + '"",' * MILLION + '""]}',
    ),
    "tools": ("/v1/responses", lambda: FIELDS + '"tools": [' + "{}," * MILLION + "{}]}"),
    "content parts": (
        "/v1/responses",
        lambda: '{"model": "harmless", "input": [{"role": "user", "content": [' + "{}," * MILLION + "{}]}]}",
    ),
    "metadata": (
        "/v1/responses",
        lambda: FIELDS + '"metadata": {' + ",".join(f'"{n}":""' for n in range(MILLION)) + "}}",
    ),
    "the same key": ("/v1/responses", lambda: FIELDS + '"a": 1,' * MILLION + '"b": 1}'),
    "values of a schema": (
        "/v1/responses",
        lambda: (
            FIELDS
            + '"tools": [{"type": "function", "name": "f", "parameters": {"enum": ['
            + "1," * MILLION
            + "1]}}]}"
        ),
    ),
    "items of a conversation": ("/v1/conversations", lambda: '{"items": [' + "{}," * MILLION + "{}]}"),
}


@pytest.mark.parametrize(("path", "make"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_with_a_million_values_is_refused(
    gateway: Attacked, path: str, make: Callable[[], str]
) -> None:
    body = make().encode()
    memory = gateway.memory()
    with HealthPoller(gateway.running) as poller:
        status, answered = gateway.ask(body, path)
    assert (status, error_of(answered)["code"]) == (400, "invalid_request")
    assert "limits.body_values" in error_of(answered)["message"]
    assert poller.answers
    assert memory.peak() < 100 * MIB
    assert gateway.is_unharmed()


HEADS = {
    "headers": (b"x: y\r\n", 431),
    "different headers": (b"", 431),
    "cookies": (b"cookie: a=b\r\n", 431),
}


@pytest.mark.parametrize(("line", "status"), HEADS.values(), ids=HEADS)
def test_a_million_headers_are_refused(gateway: Attacked, line: bytes, status: int) -> None:
    lines = line * MILLION or b"".join(b"x%d: y\r\n" % number for number in range(MILLION))
    memory = gateway.memory()
    client = connect(gateway.running)
    try:
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + lines + b"\r\n")
        assert answer(client).status == status
    except (ConnectionResetError, BrokenPipeError):
        pass  # it was closed before everything was sent
    assert memory.peak() < 20 * MIB
    assert gateway.is_unharmed()


def test_as_many_parameters_as_fit_into_a_head_are_harmless(gateway: Attacked) -> None:
    client = connect(gateway.running, head(f"GET /v1/models?{'a&b=&' * 10_000} HTTP/1.1"))
    assert answer(client).status == 200
    client = connect(gateway.running, post(b"{}", *[f"a{n}:" for n in range(5000)]))
    assert answer(client).status == 400
    assert gateway.is_unharmed()


def _call(number: int) -> dict[str, object]:
    return {"index": number, "id": f"c{number}", "function": {"name": "f", "arguments": "{}"}}


def _citation(number: int) -> dict[str, object]:
    url = {"url": f"https://a.example/{number}", "title": "t", "start_index": 0, "end_index": 1}
    return {"type": "url_citation", "url_citation": url}


def repeated(data: bytes, times: int) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield sse(chunk({"content": "a"}))
        for _ in range(times):
            yield data
        yield sse(chunk(finish="stop"), b"[DONE]")

    return pieces


CHOICE = '{"index": 0, "delta": {"content": "a"}}'
CUT = ("response.failed", 200)
STREAMS: dict[str, tuple[Callable[[], Callable[[], Iterator[bytes]]], str, int]] = {
    "tiny frames": (lambda: repeated(sse({}) * 10_000, 100), "response.completed", 100),
    "comments": (lambda: repeated(b":\n\n" * 10_000, 100), "response.completed", 50),
    "blank lines": (lambda: repeated(b"\n" * 10_000, 100), "response.completed", 50),
    "a long event name": (
        lambda: repeated(b"event: " + b"x" * MILLION + b"\n" + sse({}), 20),
        "response.completed",
        50,
    ),
    "a line of 200 MB": (lambda: repeated(b"x" * 100_000, 2000), *CUT),
    "a frame of 200 MB": (lambda: repeated(b"data: " + b"x" * 100_000, 2000), *CUT),
    "choices": (
        lambda: repeated(
            b'data: {"choices": [' + f"{CHOICE},".encode() * MILLION + CHOICE.encode() + b"]}\n\n", 1
        ),
        *CUT,
    ),
    "calls in one frame": (
        lambda: repeated(sse(chunk({"tool_calls": [_call(number) for number in range(50_000)]})), 1),
        "response.failed",
        200,
    ),
    "citations in one frame": (
        lambda: repeated(sse(chunk({"annotations": [_citation(number) for number in range(50_000)]})), 1),
        "response.failed",
        200,
    ),
    "items": (
        lambda: repeated(sse(chunk({"reasoning_content": "a"}), chunk({"content": "b"})) * 1000, 500),
        "response.failed",
        200,
    ),
}


@pytest.mark.parametrize(("make", "end", "most"), STREAMS.values(), ids=STREAMS)
def test_an_upstream_that_sends_too_much_of_anything_ends_its_turn(
    gateway: Attacked, make: Callable[[], Callable[[], Iterator[bytes]]], end: str, most: int
) -> None:
    gateway.upstream.play("many", sends(make()))
    memory = gateway.memory()
    status, body = gateway.turn("many")
    event = last_event(body)
    assert (status, event["type"]) == (200, end)
    if end == "response.failed":
        assert event["response"]["error"]["code"] == "upstream_invalid"
    assert memory.peak() < most * MIB
    assert gateway.is_unharmed()


def test_an_answer_that_is_not_streamed_has_the_same_limits(gateway: Attacked) -> None:
    items = [
        {
            "type": "message",
            "id": f"m{n}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
        for n in range(50_000)
    ]
    response = {"id": "r", "object": "response", "status": "completed", "output": items}
    body = json.dumps(response).encode()
    start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    gateway.upstream.play("over-responses", sends(lambda: iter([body]), start))
    memory = gateway.memory()
    status, answered = gateway.turn("over-responses", stream=False)
    assert (status, error_of(answered)["code"]) == (502, "upstream_invalid")
    assert memory.peak() < 200 * MIB
    assert gateway.is_unharmed()
