"""A small application for the server, and a refuser with readable bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from penstock.net.server.channels import ChannelClosed, Headers, HttpChannel, SocketChannel
from penstock.net.server.refusals import ServerRefusal


class Refusals:
    """Answers refusals with their code, and remembers them."""

    def __init__(self) -> None:
        self.refused: list[ServerRefusal] = []
        self.errors: list[Exception] = []

    def refuse(
        self, refusal: ServerRefusal, method: str, headers: Mapping[str, str]
    ) -> tuple[Headers, bytes]:
        self.refused.append(refusal)
        request_id = headers.get("x-request-id", "none")
        return [("content-type", "text/plain"), ("x-request-id", request_id)], (
            f"{method} {refusal.code}".encode()
        )

    def report(self, error: Exception) -> None:
        self.errors.append(error)


class Echo:
    """Serves each path differently; most of them repeat the request."""

    def __init__(self) -> None:
        self.channels: list[HttpChannel] = []
        self.sockets: list[SocketChannel] = []
        self.closed = 0
        """How often the application was notified of a disconnect."""
        self.release = asyncio.Event()
        """Lets the handlers of `/wait` go on."""
        self.heard: list[str | None] = []

    async def serve_http(self, channel: HttpChannel) -> None:
        self.channels.append(channel)
        try:
            await _ROUTES.get(channel.path, _echo)(self, channel)
        except ChannelClosed:
            self.closed += 1

    async def serve_socket(self, channel: SocketChannel) -> None:
        self.sockets.append(channel)
        if channel.path == "/refused":
            channel.refuse(426, [("content-type", "text/plain")], b"not here")
            return
        if channel.path == "/forgotten":
            return
        if channel.path == "/later":
            await self.release.wait()
        channel.accept()
        try:
            while (message := await channel.receive()) is not None:
                self.heard.append(message)
                if channel.path == "/slow":
                    await self.release.wait()
                if message == "close":
                    channel.close(1001, "as requested")
                channel.send(f"echo {message}".encode())
            self.heard.append(None)
            channel.close(1012)
        except ChannelClosed:
            self.closed += 1


async def body_of(channel: HttpChannel) -> bytes:
    body = bytearray()
    while piece := await channel.receive():
        body += piece
    return bytes(body)


def answer(channel: HttpChannel, body: bytes, status: int = 200) -> None:
    channel.begin(status, [("content-type", "text/plain"), ("content-length", str(len(body)))])
    channel.end(body)


async def _echo(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    body = await body_of(channel)
    answer(channel, f"{channel.method} {channel.path} {channel.query} ".encode() + body)


async def _headers(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    answer(channel, repr(sorted(channel.headers.items())).encode())


async def _stream(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    await body_of(channel)
    channel.begin(200, [("content-type", "text/plain")])
    for word in (b"one ", b"", b"two "):
        channel.write(word)
    channel.end(b"three")


async def _early(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    answer(channel, b"early", 403)


async def _wait(echo: Echo, channel: HttpChannel) -> None:
    await echo.release.wait()
    answer(channel, await body_of(channel) + b" waited")


async def _large(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    channel.begin(200, [])
    for _ in range(64):
        channel.write(b"x" * 65536)
        await channel.drain()
    channel.end()


async def _whole(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    answer(channel, b"x" * 300_000)


async def _empty(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    channel.begin(204, [])
    channel.end()


async def _close(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    channel.close()
    answer(channel, b"closed")


async def _close_late(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    answer(channel, b"closed")
    channel.close()


async def _fail(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    raise LookupError("a bug")


async def _fail_late(echo: Echo, channel: HttpChannel) -> None:  # noqa: ARG001
    channel.begin(200, [])
    channel.write(b"half")
    raise LookupError("a bug")


async def _forget(echo: Echo, channel: HttpChannel) -> None:
    """Return without a response."""


async def _refuse_late(app: Echo, channel: HttpChannel) -> None:
    await app.release.wait()
    channel.begin(401, [("content-length", "0")])
    channel.end()


async def _stream_and_wait(app: Echo, channel: HttpChannel) -> None:
    channel.begin(200, [])
    channel.write(b"begin")
    await app.release.wait()
    channel.end()


_ROUTES = {
    "/refuse-late": _refuse_late,
    "/stream-and-wait": _stream_and_wait,
    "/headers": _headers,
    "/stream": _stream,
    "/early": _early,
    "/wait": _wait,
    "/large": _large,
    "/whole": _whole,
    "/empty": _empty,
    "/close": _close,
    "/close-late": _close_late,
    "/fail": _fail,
    "/fail-late": _fail_late,
    "/forget": _forget,
}
