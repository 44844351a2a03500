"""Clients that do what a library would not: on a bare socket, and in a thread."""

from __future__ import annotations

import json
import socket
import threading

from tests.gateway.running import (
    SECRET_PROMPT,
    Reply,
    Running,
)


class RawClient:
    """A client that uses its socket in ways that no library does."""

    def __init__(self, running: Running, model: str, *, stream: bool = True, buffer: int = 0) -> None:
        self.request_id = f"raw-{model}"
        body = json.dumps({"model": model, "input": SECRET_PROMPT, "stream": stream}).encode()
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(30)
        self.socket.connect((running.address.hostname, running.address.port))
        head = (
            f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
            f"x-request-id: {self.request_id}\r\nconnection: close\r\n\r\n"
        )
        self.socket.sendall(head.encode() + body)

    def read_until(self, word: bytes) -> bytes:
        data = b""
        while word not in data:
            more = self.socket.recv(65536)
            assert more, data
            data += more
        return data

    def read_all(self) -> bytes:
        data = bytearray()
        while more := self.socket.recv(1 << 20):
            data += more
        self.leave()
        return bytes(data)

    def leave(self) -> None:
        self.socket.close()


class TurnThread(threading.Thread):
    """A streamed turn in a thread."""

    def __init__(self, running: Running, model: str) -> None:
        super().__init__()
        self._running_gateway, self._model = running, model
        self.reply: Reply | None = None
        self.start()

    def run(self) -> None:
        self.reply = self._running_gateway.stream(self._model)

    def answer(self) -> Reply:
        self.join(30)
        assert self.reply is not None
        return self.reply
