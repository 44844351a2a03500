"""The reference line `py-raw-translate`: the least that a translator in Python can do.

Chat Completions to Responses on asyncio protocols with uvloop, HTTP/1.1 by hand, JSON with msgspec. Text
only; no checks, no ids, no usage, no errors, no storage. It shows what one Python process can reach and is
not a product. Usage: `python floor.py PORT UPSTREAM_PORT`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import msgspec
import uvloop

encode, decode = msgspec.json.encode, msgspec.json.decode

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: upstream\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b"
)
DELTA = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
    b'"item_id":"msg_1","output_index":0,"content_index":0,"delta":%b,"logprobs":[]}\n\n'
)
PART = b'"item_id":"msg_1","output_index":0,"content_index":0,'

idle: list[Upstream] = []


def event(type: bytes, number: int, fields: bytes) -> bytes:
    return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (type, type, number, fields)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Upstream(asyncio.Protocol):
    """One connection to the upstream; feeds the client that it is lent to."""

    client: Client
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self.rest, self.has_head = b"", False

    def data_received(self, data: bytes) -> None:
        data = self.rest + data if self.rest else data
        if not self.has_head:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.rest = data
                return
            self.has_head = True
            data = data[end + 4 :]
        lines = data.split(b"\n")  # only lines with data matter, so the sizes of chunks are not parsed
        self.rest = lines.pop()
        self.client.forward(lines)
        if not self.rest and lines[-2:] == [b"0\r", b"\r"]:
            self.has_head = False
            idle.append(self)
            self.client.finish()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self in idle:
            idle.remove(self)


class Client(asyncio.Protocol):
    """One connection from a client."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = cast(asyncio.Transport, transport), b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self.received.lower().find(b"content-length:", 0, end)
        stop = end + 4 + int(self.received[at + 15 : self.received.find(b"\r\n", at)])
        if len(self.received) < stop:
            return
        request, self.received = decode(self.received[end + 4 : stop]), self.received[stop:]
        self.model, self.number, self.text = request["model"], -1, list[str]()
        body = encode(
            {
                "model": self.model,
                "messages": [{"role": "user", "content": request["input"]}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        self.request = REQUEST % (len(body), body)
        if idle:
            self.send(idle.pop())
        else:
            self.connecting = asyncio.ensure_future(self.connect())

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, upstream = await loop.create_connection(Upstream, "127.0.0.1", UPSTREAM_PORT)
        self.send(upstream)

    def send(self, upstream: Upstream) -> None:
        upstream.client = self
        upstream.transport.write(self.request)

    def forward(self, lines: list[bytes]) -> None:
        out: list[bytes] = []
        number, text = self.number, self.text
        if number < 0:
            out, number = self.beginning(), 4
            self.transport.write(HEAD)
        for line in lines:
            if line[:7] == b"data: {":
                choices = decode(line[6:])["choices"]
                if choices and (content := choices[0]["delta"].get("content")):
                    text.append(content)
                    out.append(DELTA % (number, encode(content)))
                    number += 1
        self.number = number
        if out:
            self.transport.write(chunk(b"".join(out)))

    def beginning(self) -> list[bytes]:
        response = b'"response":' + encode(
            {"id": "resp_1", "object": "response", "status": "in_progress", "model": self.model, "output": []}
        )
        item = (
            b'"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress",'
            b'"role":"assistant","content":[]}'
        )
        part = PART + b'"part":{"type":"output_text","text":"","annotations":[]}'
        return [
            event(b"response.created", 0, response),
            event(b"response.in_progress", 1, response),
            event(b"response.output_item.added", 2, item),
            event(b"response.content_part.added", 3, part),
        ]

    def finish(self) -> None:
        text = encode("".join(self.text))
        item = (
            b'{"id":"msg_1","type":"message","status":"completed","role":"assistant",'
            b'"content":[{"type":"output_text","text":%b,"annotations":[]}]}' % text
        )
        response = b'{"id":"resp_1","object":"response","status":"completed","output":[%b]}' % item
        events = (
            event(b"response.output_text.done", self.number, PART + b'"text":' + text)
            + event(b"response.output_item.done", self.number + 1, b'"output_index":0,"item":' + item)
            + event(b"response.completed", self.number + 2, b'"response":' + response)
        )
        self.transport.write(chunk(events) + b"0\r\n\r\n")


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Client, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    UPSTREAM_PORT = int(sys.argv[2])
    uvloop.run(serve(int(sys.argv[1])))
