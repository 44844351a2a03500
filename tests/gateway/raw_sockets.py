"""Raw bytes on a socket, for clients that do what no library would."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import time
from typing import Protocol
from urllib.parse import SplitResult

from tests.gateway.running import Reply, judge, read_all

MB = 1_000_000


_opened: list[socket.socket] = []


class HasAddress(Protocol):
    """A gateway that can be connected to."""

    address: SplitResult


def connect(running: HasAddress, *pieces: bytes, buffer: int = 0, timeout: float = 20) -> socket.socket:
    """Open a connection and send these bytes. `buffer` is the size of the client's receive buffer."""
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(timeout)
    _opened.append(client)
    client.connect((running.address.hostname, running.address.port))
    for piece in pieces:
        client.sendall(piece)
    return client


def close_all() -> None:
    """Close the connections that a test has left open."""
    while _opened:
        _opened.pop().close()


def head(start: str, *lines: str) -> bytes:
    return "\r\n".join([start, "host: 127.0.0.1", *lines, "", ""]).encode()


def post(body: bytes, *lines: str, path: str = "/v1/responses", version: str = "1.1") -> bytes:
    length = f"content-length: {len(body)}"
    return head(f"POST {path} HTTP/{version}", length, *lines) + body


def turn(model: str, *lines: str, stream: bool = True, version: str = "1.1") -> bytes:
    body = json.dumps({"model": model, "input": "hello", "stream": stream}).encode()
    return post(body, f"x-request-id: raw-{model}", *lines, version=version)


def upgrade(*lines: str, start: str = "GET /v1/responses HTTP/1.1") -> bytes:
    """A valid request for a WebSocket, unless `lines` or `start` change it."""
    key = base64.b64encode(os.urandom(16)).decode()
    needed = ("connection: Upgrade", "upgrade: websocket", f"sec-websocket-key: {key}")
    return head(start, *needed, "sec-websocket-version: 13", *lines)


def frame(data: bytes, opcode: int = 1, *, is_last: bool = True) -> bytes:
    """A WebSocket frame of a client, masked with zeros."""
    first = bytes([opcode | (0x80 if is_last else 0)])
    if len(data) < 126:
        return first + bytes([0x80 | len(data)]) + bytes(4) + data
    return first + b"\xff" + len(data).to_bytes(8, "big") + bytes(4) + data


def answer(client: socket.socket) -> Reply:
    """The next answer on a connection, checked."""
    response = http.client.HTTPResponse(client)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    body = read_all(response)
    response.close()
    return judge(response.status, headers, body)


def everything(client: socket.socket) -> bytes:
    """Everything that is received until the gateway closes the connection."""
    data = bytearray()
    while more := client.recv(1 << 20):
        data += more
    client.close()
    return bytes(data)


def is_closed(client: socket.socket) -> bool:
    """Return whether the gateway closes the connection, ignoring what it sends before that."""
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def flood(client: socket.socket, data: bytes, most: int, *, seconds: float = 10, patience: float = 1) -> int:
    """Send the data repeatedly until nothing is read for `patience` seconds; return the number of bytes
    sent."""
    client.settimeout(patience)
    sent, until = 0, time.monotonic() + seconds
    try:
        while sent < most and time.monotonic() < until:
            sent += client.send(data[sent % len(data) :])
    except OSError:
        pass
    return sent
