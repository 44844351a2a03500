"""The gateway behind an ASGI server: buffers, order, disconnects, and an application that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from penstock.gateway.http.asgi import ROOM, Message, serve_asgi
from penstock.net.server.channels import ChannelClosed, HttpChannel, SocketChannel

Http = Callable[[HttpChannel], Awaitable[None]]
Socket = Callable[[SocketChannel], Awaitable[None]]


class Handler:
    """An application that consists of two functions."""

    def __init__(self, http: Http | None = None, socket: Socket | None = None) -> None:
        self._http, self._socket = http, socket

    async def serve_http(self, channel: HttpChannel) -> None:
        assert self._http is not None
        await self._http(channel)

    async def serve_socket(self, channel: SocketChannel) -> None:
        assert self._socket is not None
        await self._socket(channel)


class Server:
    """An ASGI server without a network. While `gate` is not set, sending waits."""

    def __init__(self, **scope: Any) -> None:
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False
        self.scope: Message = {
            "type": "http",
            "method": "POST",
            "path": "/v1/responses",
            "query_string": b"a=1",
            "headers": [],
            **scope,
        }

    def says(self, *messages: Message) -> None:
        for message in messages:
            self.incoming.put_nowait(message)

    async def send(self, message: Message) -> None:
        await self.gate.wait()
        if self.fails:
            raise OSError("the client has disconnected")
        self.sent.append(message)

    def start(self, http: Http | None = None, socket: Socket | None = None) -> asyncio.Task[None]:
        return asyncio.create_task(
            serve_asgi(Handler(http, socket), self.scope, self.incoming.get, self.send)
        )

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def request(body: bytes = b"", *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


DISCONNECT: Message = {"type": "http.disconnect"}


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test; every task of a channel must have ended with its request."""

    async def main() -> None:
        async with asyncio.timeout(20):
            await test()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_headers_are_read_in_lower_case_and_joined() -> None:
    async def test() -> None:
        seen = []

        async def http(channel: HttpChannel) -> None:
            seen.append((channel.headers, channel.query, channel.server_port))

        headers = [(b"X-A", b"1"), (b"Host", b"h"), (b"x-a", b"2")]
        await Server(headers=headers, server=("h", 81)).start(http)
        assert seen == [({"x-a": "1, 2", "host": "h"}, "a=1", 81)]

    run(test)


def test_a_request_is_received_and_answered_in_pieces() -> None:
    async def test() -> None:
        server = Server()
        server.says(request(b"a", more=True), request(b"", more=True), request(b"b"))

        async def http(channel: HttpChannel) -> None:
            assert [await channel.receive() for _ in range(4)] == [b"a", b"b", b"", b""]
            channel.begin(200, [("x-a", "1")])
            channel.write(b"one ")
            channel.end(b"two")

        await server.start(http)
        start, *bodies = server.sent
        assert (start["status"], start["headers"]) == (200, [(b"x-a", b"1")])
        assert [(each["body"], each["more_body"]) for each in bodies] == [(b"one ", True), (b"two", False)]

    run(test)


def test_a_channel_is_writable_while_its_buffer_has_room() -> None:
    async def test() -> None:
        server = Server()
        server.gate.clear()
        full = asyncio.Event()

        async def http(channel: HttpChannel) -> None:
            channel.begin(200, [])
            channel.write(b"x" * (ROOM - 1))
            assert channel.is_writable
            channel.write(b"x")
            assert (channel.is_writable, channel.unsent) == (False, ROOM)
            full.set()
            await channel.drain()
            assert channel.is_writable
            channel.end()

        serving = server.start(http)
        await full.wait()
        server.gate.set()
        await serving
        assert len(server.body) == ROOM

    run(test)


@pytest.mark.parametrize("when", ["in the body", "later", "before it is watched", "while sending"])
def test_a_disconnect_is_reported(when: str) -> None:
    async def test() -> None:
        server, gone = Server(), asyncio.Event()

        async def http(channel: HttpChannel) -> None:
            await channel.receive()
            if when == "in the body":
                with pytest.raises(ChannelClosed):
                    await channel.receive()
            if when != "before it is watched":
                channel.on_disconnect(gone.set)
            if when == "while sending":
                channel.begin(200, [])
                channel.write(b"x" * ROOM)
                await channel.drain()
            elif when == "before it is watched":
                for _ in range(5):
                    await asyncio.sleep(0)
                channel.on_disconnect(gone.set)
            await gone.wait()
            assert not channel.is_connected
            assert channel.is_writable  # nobody has to wait for it
            channel.write(b"lost")

        server.fails = when == "while sending"
        if when == "while sending":
            server.says(request(b"a"))
        else:
            server.says(request(b"a", more=when == "in the body"), DISCONNECT)
        await server.start(http)
        assert b"lost" not in server.body

    run(test)


def test_nobody_is_notified_of_a_disconnect_after_the_end() -> None:
    async def test() -> None:
        server, reported = Server(), list[str]()
        server.says(request())

        async def http(channel: HttpChannel) -> None:
            await channel.receive()
            channel.on_disconnect(lambda: reported.append("gone"))
            await asyncio.sleep(0)
            channel.begin(200, [])
            channel.end(b"done")
            server.says(DISCONNECT)
            for _ in range(5):
                await asyncio.sleep(0)

        await server.start(http)
        assert (reported, server.body) == ([], b"done")

    run(test)


def test_an_aborted_channel_sends_nothing_more() -> None:
    async def test() -> None:
        server = Server()

        async def http(channel: HttpChannel) -> None:
            channel.begin(200, [])
            channel.write(b"lost")
            channel.abort()
            channel.abort()
            channel.end(b"lost too")
            assert (channel.is_connected, channel.unsent) == (False, 0)

        await server.start(http)
        assert server.sent == []

    run(test)


def test_a_cancelled_application_still_sends_its_last_words() -> None:
    async def test() -> None:
        server, started = Server(), asyncio.Event()

        async def http(channel: HttpChannel) -> None:
            channel.begin(200, [])
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                channel.end(b"the end")

        serving = server.start(http)
        await started.wait()
        while not serving.done():  # as some libraries do
            serving.cancel()
            await asyncio.sleep(0)
        assert serving.cancelled()
        assert server.body == b"the end"

    run(test)


def test_a_cancelled_application_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.gateway.http.asgi._CANCELLED_PATIENCE", 0.01)

    async def test() -> None:
        server, started = Server(), asyncio.Event()
        server.gate.clear()

        async def http(channel: HttpChannel) -> None:
            channel.begin(200, [])
            channel.write(b"unread")
            started.set()
            await asyncio.Event().wait()

        serving = server.start(http)
        await started.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert server.sent == []

    run(test)


def test_a_websocket_receives_and_sends_text() -> None:
    async def test() -> None:
        server = Server(type="websocket")
        server.says(
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": "one"},
            {"type": "websocket.receive", "bytes": b"two"},
        )

        async def socket(channel: SocketChannel) -> None:
            channel.accept()
            assert [await channel.receive(), await channel.receive()] == ["one", "two"]
            channel.send("ü".encode())
            while len(server.sent) < 2:
                await asyncio.sleep(0)
            server.says({"type": "websocket.disconnect"})
            with pytest.raises(ChannelClosed):
                await channel.receive()

        await server.start(socket=socket)
        assert server.sent == [{"type": "websocket.accept"}, {"type": "websocket.send", "text": "ü"}]

    run(test)


def test_a_websocket_is_closed_after_what_was_sent() -> None:
    async def test() -> None:
        server = Server(type="websocket")
        server.says({"type": "websocket.connect"})

        async def socket(channel: SocketChannel) -> None:
            channel.accept()
            channel.send(b"last")
            channel.close(1001, "bye")

        await server.start(socket=socket)
        assert [message["type"] for message in server.sent] == [
            "websocket.accept",
            "websocket.send",
            "websocket.close",
        ]
        assert server.sent[-1]["code"] == 1001

    run(test)


def test_a_large_body_is_sent_in_pieces_so_that_its_reading_shows() -> None:
    async def test() -> None:
        server = Server()

        async def http(channel: HttpChannel) -> None:
            channel.begin(200, [])
            channel.end(b"x" * (3 * ROOM + 1))

        await server.start(http)
        _, *bodies = server.sent
        assert [len(each["body"]) for each in bodies] == [ROOM, ROOM, ROOM, 1]
        assert [each["more_body"] for each in bodies] == [True, True, True, False]

    run(test)


def test_a_websocket_whose_client_does_not_read_is_not_read() -> None:
    """Otherwise answers to its messages would pile up."""

    async def test() -> None:
        server = Server(type="websocket")
        server.says({"type": "websocket.connect"})
        received = []

        async def socket(channel: SocketChannel) -> None:
            channel.accept()
            with suppress(ChannelClosed):
                while True:
                    received.append(await channel.receive())
                    channel.send(b"x" * ROOM)

        serving = server.start(socket=socket)
        await asyncio.sleep(0)
        server.gate.clear()
        server.says(*[{"type": "websocket.receive", "text": "hi"}] * 50)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(received) <= 2
        server.gate.set()
        while len(received) < 50:
            await asyncio.sleep(0)
        server.says({"type": "websocket.disconnect"})
        await serving

    run(test)


def test_an_aborted_websocket_receives_nothing_more() -> None:
    async def test() -> None:
        server = Server(type="websocket")
        server.says({"type": "websocket.connect"})

        async def socket(channel: SocketChannel) -> None:
            channel.accept()
            asyncio.get_running_loop().call_soon(channel.abort)
            for _ in range(2):
                with pytest.raises(ChannelClosed):
                    await channel.receive()

        await server.start(socket=socket)

    run(test)


@pytest.mark.parametrize("can_refuse", [True, False])
def test_a_websocket_is_refused_with_a_status_where_the_server_can(can_refuse: bool) -> None:
    async def test() -> None:
        server = Server(type="websocket", extensions={"websocket.http.response": {}} if can_refuse else {})
        server.says({"type": "websocket.connect"})

        async def socket(channel: SocketChannel) -> None:
            channel.refuse(403, [("x-a", "1")], b"{}")

        await server.start(socket=socket)
        if can_refuse:
            assert [message["type"] for message in server.sent] == [
                "websocket.http.response.start",
                "websocket.http.response.body",
            ]
            assert server.sent[0]["status"] == 403
        else:
            assert [message["code"] for message in server.sent] == [1008]

    run(test)
