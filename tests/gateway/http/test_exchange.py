"""One HTTP request and its answer: ids, headers and writes."""

from __future__ import annotations

import json
import socket

import pytest

from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, streamed


@pytest.mark.e2e
def test_a_request_id_is_echoed_or_made(penstock: Running) -> None:
    assert penstock.whole("demo", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    for unfit in ("", "two words", "x" * 200):
        made = penstock.whole("demo", headers={"x-request-id": unfit}).headers["x-request-id"]
        assert made.startswith("req_")
    assert (
        penstock.ask(path="/nowhere", headers={"x-request-id": "mine-2"}).headers["x-request-id"] == "mine-2"
    )


def test_what_came_in_one_read_leaves_in_one_write(penstock: Running, upstream: ScriptedUpstream) -> None:
    pieces = [chat_chunk({"content": f"{number} "}) for number in range(50)]
    model = upstream.play("at-once", streamed(*pieces, chat_chunk(finish="stop")))
    body = json.dumps({"model": model, "input": "x", "stream": True}).encode()
    lines = [
        "POST /v1/responses HTTP/1.1",
        "host: localhost",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    head = "\r\n".join([*lines, "", ""])
    with socket.create_connection((penstock.address.hostname, penstock.address.port)) as client:
        client.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    chunks = answer.partition(b"\r\n\r\n")[2]
    size = int(chunks.partition(b"\r\n")[0], 16)
    assert chunks[:size].count(b"event: response.output_text.delta") == 50
    assert chunks.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
