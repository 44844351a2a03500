"""Line breaks, escape sequences and other bytes that could split a header, or forge lines of a log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.client.server import head as upstream_head
from tests.client.server import send
from tests.gateway.probes import wait_for
from tests.gateway.raw_sockets import connect, everything, head, post
from tests.gateway.upstream import frames, said
from tests.hardening.attacked import Attacked
from tests.hardening.proxies import Fronted

pytestmark = pytest.mark.hardening

INJECTED = "x-injected: yes"
TEXTS = {
    "a line": f"a\r\n{INJECTED}\r\n\r\n<html>",
    "a line feed": f"a\n{INJECTED}",
    "a carriage return": f"a\r{INJECTED}",
    "a log line": 'a\n{"level": "error", "message": "forged"}',
    "a zero byte": "a\0b",
    "colours": "a\x1b[31m\x1b]0;title\x07\x1b[2J",
    "C1 controls": "a\x9b31m\x85forged",
    "other line ends": "a\u2028forged\u2029b\x0b\x0c\x1c\x1d\x1e",
    "bidirectional marks": "a\u202egpj.exe\u2066",
    "half a character": "a\ud83d",
}
LINES = {
    **{f"text: {name}": text.encode("utf-8", "surrogatepass") for name, text in TEXTS.items()},
    "8 bits": bytes(range(0x80, 0x100)),
    "invalid UTF-8": b"a\xff\xfe\xc3\x28",
    "tabs": b"a\tb\t",
}
HEADERS = [
    "x-request-id",
    "user-agent",
    "authorization",
    "x-api-key",
    "idempotency-key",
    "traceparent",
    "tracestate",
    "origin",
    "originator",
    "content-type",
    "content-encoding",
    "x-penstock-accent",
    "x-penstock-heartbeat",
    "access-control-request-headers",
]
UPSTREAM = [
    "x-request-id",
    "request-id",
    "content-type",
    "retry-after",
    "content-encoding",
    "x-should-retry",
    "date",
]
POST = post(b'{"model": "harmless", "input": "x"}', "connection: close", "@")
OPTIONS = head("OPTIONS / HTTP/1.1", "connection: close", "@")


def heads(answered: bytes) -> list[bytes]:
    """The head of every answer of a connection."""
    return [part.partition(b"\r\n\r\n")[0] for part in answered.split(b"HTTP/1.1 ")[1:]]


def is_clean(answered: bytes) -> bool:
    """Return whether the heads of the answers have only lines of ours, in printable ASCII."""
    lines = [line for head in heads(answered) for line in head.split(b"\r\n")]
    return all(
        line.isascii() and line.decode().isprintable() and not line.startswith((b"x-injected", b"forged"))
        for line in lines
    )


@pytest.mark.parametrize("value", LINES.values(), ids=LINES)
def test_a_clients_header_splits_neither_an_answer_nor_the_log(gateway: Attacked, value: bytes) -> None:
    for name in HEADERS:
        line = name.encode() + b": " + value
        for request in (POST, OPTIONS):
            answered = everything(connect(gateway.running, request.replace(b"@", line)))
            assert is_clean(answered), (name, answered)
    assert gateway.is_unharmed()
    assert_clean_log(gateway)


def assert_clean_log(gateway: Attacked) -> None:
    """Every line is one JSON object of ours, whatever a reader takes for a line end."""
    for line in gateway.log.read_text().splitlines():
        written = json.loads(line)
        assert {"time", "level", "message"} <= written.keys()
        assert written["message"].isprintable(), written
        assert "forged" not in written


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_clients_text_splits_neither_an_answer_nor_the_log(gateway: Attacked, text: str) -> None:
    encoded = quote(text.encode("utf-8", "surrogatepass"))
    tool = {"type": "function", "name": text, "parameters": {}}
    bodies: list[dict[str, object]] = [
        {"model": text, "input": "x"},
        {"model": "harmless", "input": "x", text: text},
        {"model": "harmless", "input": text, "metadata": {text: text}, "user": text},
        {"model": "harmless", "input": "x", "tools": [tool], "prompt_cache_key": text},
        {"model": "harmless", "input": "x", "previous_response_id": text, "conversation": text},
        {"model": "harmless", "input": [{"type": text, "id": text, "call_id": text}], "instructions": text},
    ]
    requests = [post(json.dumps(each).encode(), "connection: close") for each in bodies]
    paths = ("/v1/", "/v1/responses/", "/v1/models/", "/v1/conversations/", "/v1/responses?")
    requests += [head(f"GET {path}{encoded} HTTP/1.1", "connection: close") for path in paths]
    for request in requests:
        answered = everything(connect(gateway.running, request))
        assert answered.startswith(b"HTTP/1.1 ")
        assert is_clean(answered), answered
        assert b" 500 " not in answered[:20], answered
    assert gateway.is_unharmed()
    assert_clean_log(gateway)


@pytest.mark.parametrize("value", LINES.values(), ids=LINES)
def test_an_upstreams_headers_split_neither_an_answer_nor_the_log(gateway: Attacked, value: bytes) -> None:
    error = json.dumps({"error": {"message": "no", "code": "x", "type": "y"}}).encode()
    for name in UPSTREAM:
        line = name.encode() + b": " + value + b"\r\n"
        good = upstream_head().replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n") + frames(*said("x"))
        for status in (200, 429, 500):
            bad = b"HTTP/1.1 %d No\r\nconnection: close\r\n%b\r\n" % (status, line) + error
            gateway.upstream.play("headers", [send(good if status == 200 else bad)])
            sent = post(b'{"model": "headers", "input": "x", "stream": true}', "connection: close")
            answered = everything(connect(gateway.running, sent))
            assert is_clean(answered), (name, answered)
            assert b'"internal_error"' not in answered
    assert gateway.is_unharmed()
    assert_clean_log(gateway)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_upstreams_error_splits_neither_an_answer_nor_the_log(gateway: Attacked, text: str) -> None:
    error = {"error": {"message": text, "code": text, "type": text, "param": text}}
    chunks = [
        {"id": text, "model": text, "choices": [{"index": 0, "delta": {"content": "a", text: text}}]},
        error,
    ]
    for status, body in ((429, json.dumps(error).encode()), (500, text.encode("utf-8", "surrogatepass"))):
        start = b"HTTP/1.1 %d No\r\nconnection: close\r\n\r\n" % status
        gateway.upstream.play("error", [send(start + body)])
        answered = everything(
            connect(gateway.running, post(b'{"model": "error", "input": "x"}', "connection: close"))
        )
        assert is_clean(answered), answered
        assert b'"internal_error"' not in answered
    gateway.upstream.play("error", [send(upstream_head() + frames(*chunks))])
    status, streamed = gateway.turn("error")
    assert (status, streamed.endswith(b"data: [DONE]\n\n")) == (200, True)
    assert all(line.startswith((b"event: ", b"data: ", b": ", b"")) for line in streamed.split(b"\n"))
    assert b"\r" not in streamed
    assert gateway.is_unharmed()
    assert_clean_log(gateway)


# The log on a terminal


@contextmanager
def on_a_terminal(folder: Path) -> Iterator[tuple[Fronted, bytearray]]:
    """A gateway whose log goes to a terminal; yield its address, and what the terminal receives."""
    terminal, its_end = os.openpty()
    ready, received = folder / "ready", bytearray()
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen(
        [*command, "--log-level", "debug", "--store", "none"],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        cwd=folder,
    )
    os.close(its_end)

    def read() -> None:
        try:
            while data := os.read(terminal, 65536):
                received.extend(data)
        except OSError:
            pass  # the process has ended

    reading = threading.Thread(target=read)
    reading.start()
    try:
        wait_for(lambda: ready.exists() and ready.read_text().strip())
        yield Fronted(ready.read_text().strip()), received
    finally:
        process.terminate()
        process.wait(20)
        reading.join()
        os.close(terminal)


def test_nothing_that_a_client_sends_controls_the_terminal(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as (address, received):
        assert urlsplit(address.address.geturl()).port
        for text in TEXTS.values():
            body = json.dumps({"model": text, "input": "x"}).encode()
            everything(connect(address, post(body, "connection: close")))
        for value in LINES.values():
            line = b"x-request-id: " + value
            request = head("GET /nothing HTTP/1.1", "connection: close", "@").replace(b"@", line)
            everything(connect(address, request))
        wait_for(lambda: received.count(b"404") >= len(TEXTS))
    shown = bytes(received).decode()
    for sequence in ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\x85", "\u202e", "\u2028", "\0"):
        assert sequence not in shown
    assert not any(line.startswith(("x-injected", "{", "forged")) for line in shown.splitlines())
