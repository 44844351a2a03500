"""Responses over a WebSocket: the same events, one turn at a time, with a history per connection.

The last response of a connection can be continued even if it is not stored (spec N18). If a turn that
continues it fails, it is forgotten (spec N21). A failure before `response.created` is one error envelope, and
after it `response.failed`; the socket stays usable in both cases (decision 9, decision 18).
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
from penstock.gateway.refusals import invalid_request, refusal_for
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
"""Maximum duration of a connection in seconds (spec N24)."""

_MOST_QUEUED = 16
"""Frames that may be queued; together they may have no more bytes than one request. A client that sends more
is disconnected: if its frames were left unread, a disconnect would not be noticed."""
_FORBIDDEN = ("stream", "stream_options", "background")
_GOING_AWAY, _TOO_MANY, _RESTARTING = 1001, 1008, 1012


class SocketOutlet(LiveOutlet):
    """Sends one text frame per event, and no `[DONE]`."""

    def __init__(
        self, send: Send, accent: Accent, keeper: Keeper, verdict: Verdict, watch: Stopwatch
    ) -> None:
        super().__init__(accent, keeper, verdict, watch)
        self._send = send
        self._unsent: list[bytes] = []
        """Frames of an interrupted write, which must be sent again."""
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
        """Send nothing: a WebSocket has its own pings."""
        self.last_write = self._clock()

    async def refuse(self, refused: RequestRefused) -> None:
        self.is_refused = True
        self._verdict.status = refused.status
        await self._send({"type": "websocket.send", "text": envelope(refused)})


def envelope(refused: RequestRefused) -> str:
    """Return the error envelope of a failure outside a response (spec N26)."""
    error = {"code": refused.code, "message": refused.message, "type": refused.type, "param": refused.param}
    body: dict[str, Any] = {"type": "error", "status": refused.status, "error": error}
    if wait := dict(refused.headers).get("retry-after"):
        body["headers"] = {"retry-after": wait}
    return msgspec.json.encode(body).decode()


class Socket:
    """One WebSocket connection. `clock` measures its age, which is limited to `longest`."""

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
        self._disconnected = asyncio.Event()
        self._is_disconnected = self._is_stopping = False
        self._name, self._count = exchange.request_id, 0
        self._queued_bytes = 0

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
        """Return the next frame; None if there are no more. A connected client has then got the reason."""
        try:
            async with asyncio.timeout(self._until - self._clock()):
                frame = await self._frames.get()
        except TimeoutError:
            await self._close_expired()
            return None
        self._queued_bytes -= len(frame or "")
        if self._is_disconnected:
            return None
        if self._is_stopping:
            await self._send({"type": "websocket.close", "code": _RESTARTING})
            return None
        if self._clock() >= self._until:
            await self._close_expired()
            return None
        return frame

    async def _read(self) -> None:
        """Queue frames. If the client disconnects, end the running turn and drop the queued frames."""
        while await self._enqueue(await self._exchange.receive()):
            pass
        self._is_disconnected = True
        self._disconnected.set()
        self._frames.put_nowait(None)

    async def _enqueue(self, message: Message) -> bool:
        """Queue the frame of a message; return False after the last message. This is a function of its own,
        so that no reference to a large frame stays until the next message."""
        limits = self._gateway.services.settings.limits
        if message["type"] == "websocket.disconnect":
            return False
        if message["type"] == SERVER_STOPS:
            self._is_stopping = True
            self._frames.put_nowait(None)
        elif self._frames.qsize() >= _MOST_QUEUED or self._queued_bytes > limits.body_bytes:
            await self._send({"type": "websocket.close", "code": _TOO_MANY})
            return False
        else:
            frame = message.get("text") or (message.get("bytes") or b"").decode("utf-8", "replace")
            self._queued_bytes += len(frame)
            self._frames.put_nowait(frame)
        return True

    async def _until_disconnected(self) -> None:
        await self._disconnected.wait()

    async def _send(self, message: Message) -> None:
        """Send a message; ignore a disconnect, which the reading task reports."""
        with suppress(OSError):
            await self._exchange.send(message)

    async def _close_expired(self) -> None:
        message = (
            "this connection has reached its limit of 60 minutes: continue the last response on a new one"
        )
        refused = RequestRefused(400, "websocket_connection_limit_reached", message)
        await self._send({"type": "websocket.send", "text": envelope(refused)})
        await self._send({"type": "websocket.close", "code": _GOING_AWAY})

    async def _answer(self, frame: str | None) -> bool:
        """Answer a frame; return False if there was none left."""
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
            refused = refusal_for(error, self._exchange.request_id)
            await self._send({"type": "websocket.send", "text": envelope(refused)})
        if failed and self._local is not None and self._local.id == continued:
            self._local = None  # spec N21, spec N22
        return True

    async def _turn(self, given: WebSocketCreate, weight: int) -> bool:
        """Run one turn; return True if it failed."""
        gateway, settings = self._gateway, self._gateway.services.settings
        gateway.refuse_if_full()
        self._count += 1
        self._exchange.request_id = f"{self._name}-{self._count}"  # each turn has its own verdict
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
        if self._is_disconnected:
            return True  # during the lookup of its history, when there was no turn to stop
        if given.generate is False:
            await outlet.write([*prepared.machine.start(), *prepared.machine.finish(FinishReason.STOP)])
        else:
            prepared.verdict.stream = True
            await run_turn(gateway, prepared, outlet, self._exchange, self._until_disconnected())
        snapshot = prepared.machine.snapshot
        if outlet.is_refused or snapshot.status == "failed":
            return True
        conversation = resolved.request.input
        items: list[Item] = [*(conversation if isinstance(conversation, list) else []), *snapshot.output]
        self._local = ConnectionHistory(snapshot.id, tuple(items), snapshot.store, resolved.weight)
        return False


def _read_create(frame: str, limits: Limits) -> WebSocketCreate:
    try:
        raw = parse_bounded(frame, limits)
        if not isinstance(raw, dict) or raw.get("type") != "response.create":
            raise DecodeError("a frame must be a JSON object of the type response.create", "type")
        for name in _FORBIDDEN:
            if name in raw:
                raise DecodeError("is not supported over a WebSocket: remove it", name)
        return read(raw, WebSocketCreate)
    except DecodeError as error:
        raise invalid_request(error) from None
