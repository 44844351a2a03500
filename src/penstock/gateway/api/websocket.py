"""Responses over a WebSocket: the same events, one turn at a time, with a memory of the connection's own.

The last response of a connection can be continued without having been stored (spec N18); one that failed to
be continued is forgotten (spec N21). A failure before `response.created` is one error envelope, after it it
is `response.failed`; the socket stays usable either way (decision 9, decision 18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from penstock.errors import DecodeError
from penstock.fairness import encode_large, run_heavy, weight_of
from penstock.gateway.api.compact import prepare_any
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import ConnectionHistory
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.exchange import SERVER_STOPS, Exchange, Message, Send
from penstock.gateway.refusals import refused_by, wrong_request
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.turn.outlets import LiveOutlet
from penstock.gateway.turn.requests import check_request, parse_bounded
from penstock.gateway.turn.run import run_turn
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.protocol.request import WebSocketCreate
from penstock.protocol.wire import encode, read
from penstock.store.keeper import Keeper
from penstock.stream.accents import ACCENTS, Accent
from penstock.stream.deltas import FinishReason

LONGEST = 60 * 60.0
"""Seconds that a connection may last (spec N24)."""

_WAITING = 16
"""Frames that may wait for their turn, with no more bytes than one request may have. Who sends more is let
go: to leave them unread would be not to see that the client went."""
_FORBIDDEN = ("stream", "stream_options", "background")
_GOING_AWAY, _TOO_MANY, _RESTARTING = 1001, 1008, 1012


class SocketOutlet(LiveOutlet):
    """One frame of text for each event, and no `[DONE]`."""

    def __init__(
        self, send: Send, accent: Accent, keeper: Keeper, verdict: Verdict, watch: Stopwatch
    ) -> None:
        super().__init__(accent, keeper, verdict, watch)
        self._send = send
        self._unsent: list[bytes] = []
        """Given to the server in vain: a write that was interrupted while the client did not read."""
        self.is_refused = False

    async def _deliver(self, events: list[Event], *, is_large: bool) -> None:
        self._unsent += [await encode_large(event) if is_large else encode(event) for event in events]
        await self._resume()

    async def _resume(self) -> None:
        while self._unsent and not self._is_disconnected:
            await self._send({"type": "websocket.send", "text": self._unsent[0].decode()})
            self._verdict.bytes_out += len(self._unsent.pop(0))
        self._verdict.status = 200

    async def comment(self) -> None:
        """A socket has pings of its own."""
        self.last_write = self._clock()

    async def refuse(self, refused: RequestRefused) -> None:
        self.is_refused = True
        self._verdict.status = refused.status
        await self._send({"type": "websocket.send", "text": envelope(refused)})


def envelope(refused: RequestRefused) -> str:
    """A failure that no response tells of (spec N26)."""
    error = {"code": refused.code, "message": refused.message, "type": refused.type, "param": refused.param}
    told: dict[str, Any] = {"type": "error", "status": refused.status, "error": error}
    if wait := dict(refused.headers).get("retry-after"):
        told["headers"] = {"retry-after": wait}
    return msgspec.json.encode(told).decode()


class Socket:
    """One connection. `clock` is for its longest life."""

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        key: ClientKey | None,
        clock: Callable[[], float],
        longest: float = LONGEST,
    ) -> None:
        self._gateway, self._exchange, self._key = gateway, exchange, key
        self._clock, self._until = clock, clock() + longest
        self._local: ConnectionHistory | None = None
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._is_gone = self._is_stopping = False
        self._name, self._count = exchange.request_id, 0
        self._waiting_bytes = 0

    async def serve(self) -> None:
        await self._exchange.send({"type": "websocket.accept"})
        reading = asyncio.create_task(self._read())
        try:
            while await self._answer(await self._next()):
                pass
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _next(self) -> str | None:
        """The frame whose turn it is; None: there is no more, and who is still there was told why."""
        try:
            async with asyncio.timeout(self._until - self._clock()):
                frame = await self._frames.get()
        except TimeoutError:
            await self._close_old()
            return None
        self._waiting_bytes -= len(frame or "")
        if self._is_gone:
            return None
        if self._is_stopping:
            await self._send({"type": "websocket.close", "code": _RESTARTING})
            return None
        if self._clock() >= self._until:
            await self._close_old()
            return None
        return frame

    async def _read(self) -> None:
        """Frames wait for their turn; a client that goes ends the turn that runs, and those that wait."""
        while await self._take(await self._exchange.receive()):
            pass
        self._is_gone = True
        self._gone.set()
        self._frames.put_nowait(None)

    async def _take(self, message: Message) -> bool:
        """False: it was the last. A frame may be large, so none is kept here until the next one comes."""
        limits = self._gateway.services.settings.limits
        if message["type"] == "websocket.disconnect":
            return False
        if message["type"] == SERVER_STOPS:
            self._is_stopping = True
            self._frames.put_nowait(None)
        elif self._frames.qsize() >= _WAITING or self._waiting_bytes > limits.body_bytes:
            await self._send({"type": "websocket.close", "code": _TOO_MANY})
            return False
        else:
            frame = message.get("text") or (message.get("bytes") or b"").decode("utf-8", "replace")
            self._waiting_bytes += len(frame)
            self._frames.put_nowait(frame)
        return True

    async def _until_gone(self) -> None:
        await self._gone.wait()

    async def _send(self, message: Message) -> None:
        """To a client that has just gone: whoever reads here is told so, and nobody else need be."""
        with suppress(OSError):
            await self._exchange.send(message)

    async def _close_old(self) -> None:
        message = "a connection lasts 60 minutes: open another one, and go on with the last response's id"
        refused = RequestRefused(400, "websocket_connection_limit_reached", message)
        await self._send({"type": "websocket.send", "text": envelope(refused)})
        await self._send({"type": "websocket.close", "code": _GOING_AWAY})

    async def _answer(self, frame: str | None) -> bool:
        """False: there was nothing left to answer."""
        if frame is None:
            return False
        continued = ""
        try:
            limits, weight = self._gateway.services.settings.limits, weight_of(frame)
            request = await run_heavy(weight, _read_create, frame, limits)
            del frame  # it may be large, and the turn may be long
            continued = request.previous_response_id or ""
            failed = await self._turn(request, weight)
        except Exception as error:
            failed = True
            refused = refused_by(error, self._exchange.request_id)
            await self._send({"type": "websocket.send", "text": envelope(refused)})
        if failed and self._local is not None and self._local.id == continued:
            self._local = None  # spec N21, spec N22
        return True

    async def _turn(self, given: WebSocketCreate, weight: int) -> bool:
        """Run one turn; True when it failed."""
        gateway, settings = self._gateway, self._gateway.services.settings
        gateway.refuse_if_full()
        self._count += 1
        self._exchange.request_id = f"{self._name}-{self._count}"  # each turn has a verdict of its own
        request = check_request(given, settings.default_model)
        watch = Stopwatch(gateway.services.clock)
        resolved = await complete(gateway, self._key, request, weight, self._local)
        prepared = await run_heavy(
            resolved.weight,
            prepare_any,
            gateway,
            self._exchange,
            self._key,
            resolved,
            watch,
            error_event=False,
        )
        accent = ACCENTS[prepared.accent]()
        outlet = SocketOutlet(self._send, accent, prepared.keeper, prepared.verdict, watch)
        if self._is_gone:
            return True  # while what it refers to was looked up: no turn was there to be stopped
        if given.generate is False:
            await outlet.write([*prepared.machine.start(), *prepared.machine.finish(FinishReason.STOP)])
        else:
            prepared.verdict.stream = True
            await run_turn(gateway, prepared, outlet, self._exchange, self._until_gone())
        snapshot = prepared.machine.snapshot
        if outlet.is_refused or snapshot.status == "failed":
            return True
        whole = resolved.request.input
        items: list[Item] = [*(whole if isinstance(whole, list) else []), *snapshot.output]
        self._local = ConnectionHistory(snapshot.id, tuple(items), snapshot.store, resolved.weight)
        return False


def _read_create(frame: str, limits: Limits) -> WebSocketCreate:
    try:
        raw = parse_bounded(frame, limits)
        if not isinstance(raw, dict) or raw.get("type") != "response.create":
            raise DecodeError("a frame is a JSON object of the type response.create", "type")
        for name in _FORBIDDEN:
            if name in raw:
                raise DecodeError("is not for a WebSocket: leave it out", name)
        return read(raw, WebSocketCreate)
    except DecodeError as error:
        raise wrong_request(error) from None
