"""Responses over a WebSocket: the same events as over HTTP, with a history per connection.

Turns run one after the other, in the order of their frames. A client that wants several at a time gives each
a `stream_id` of its own: such a lane has its own order, and its events and errors repeat the `stream_id`.

The last response of a lane can be continued even if it is not stored (spec N18). If a turn that continues it
fails, it is forgotten (spec N21). A failure before `response.created` is one error envelope, and after it
`response.failed`; the socket stays usable in both cases (decision 9, decision 18).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from penstock.fairness import encode_large, run_heavy, weight_of
from penstock.gateway.api.compact import prepare_any
from penstock.gateway.api.websocket_frames import (
    STEER,
    STREAM_ID,
    Create,
    address_of,
    envelope,
    read_create,
    steer_failed,
    steered_response,
)
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.connection_cache import ConnectionCache, ConnectionHistory
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.access import authenticate, tenant_of
from penstock.gateway.http.exchange import SocketExchange
from penstock.gateway.refusals import refusal_for
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.outlets import LiveOutlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.requests import check_request
from penstock.gateway.turn.run import admit_turn, close_turn, run_turn
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, conclude
from penstock.net.server.channels import ChannelClosed, SocketChannel
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.items import Item
from penstock.store.keeper import Keeper
from penstock.stream.accents import ACCENTS, Accent
from penstock.stream.deltas import DiagnosticDelta, FinishReason

LONGEST = 60 * 60.0
"""Maximum duration of a connection in seconds (spec N24)."""

MOST_LANES = 32
"""Different `stream_id`s of a connection, and below: turns of a connection that run at a time. OpenAI's
service has the same limits."""
MOST_RUNNING = 16

_MOST_QUEUED = 16
"""Frames that may be queued; together they may have no more bytes than one request. A client that sends more
is disconnected: if its frames were left unread, a disconnect would not be noticed."""
_DEFAULT = ""
"""The lane of frames without a `stream_id`."""
_GOING_AWAY, _TOO_MANY, _RESTARTING = 1001, 1008, 1012


class SocketOutlet(LiveOutlet):
    """Sends one text frame per event, and no `[DONE]`."""

    def __init__(
        self, channel: SocketChannel, accent: Accent, keeper: Keeper, verdict: Verdict, stream_id: str = ""
    ) -> None:
        super().__init__(accent, keeper, verdict, channel)
        self._socket = channel
        self._stream_id = stream_id
        self._end = f',"stream_id":"{stream_id}"}}'.encode()
        """How a frame ends: the `stream_id` is part of a frame, but not of the event that is stored."""
        self.is_refused = False

    def _transmit(
        self,
        events: Sequence[Event],
        encoded: Sequence[bytes],
        more: bool = False,  # noqa: ARG002 - every event is a frame of its own
    ) -> None:
        for data in encoded:
            frame = data[:-1] + self._end if self._stream_id else data
            self._socket.send(frame)
            self._verdict.bytes_out += len(frame)
        self._verdict.status = 200
        self._verdict.terminal_sent = events[-1].type in TERMINAL

    async def _send_large(self, event: Event) -> None:
        self._transmit([event], [await encode_large(event)])

    def comment(self) -> None:
        """Send nothing: a WebSocket has its own pings."""
        self.last_write = self._clock()

    def refuse(self, refused: RequestRefused) -> None:
        self.is_refused = True
        self._verdict.status = refused.status
        self._socket.send(envelope(refused, self._stream_id).encode())


class _Lane:
    """Turns that run one after the other."""

    def __init__(self, stream_id: str) -> None:
        self.stream_id = stream_id
        self.frames: deque[str] = deque()
        self.is_busy = False
        self.response_id = ""
        """The response of its last turn."""
        self.ended = asyncio.Event()
        """Set when that turn has ended, and its response can be continued."""


class Socket:
    """One WebSocket connection. `clock` measures its age, which is limited to `longest`."""

    def __init__(
        self,
        gateway: Gateway,
        exchange: SocketExchange,
        key: ClientKey | None,
        clock: Callable[[], float],
        longest: float = LONGEST,
    ) -> None:
        self._gateway, self._exchange, self._key = gateway, exchange, key
        self._channel = exchange.channel
        self._clock, self._until = clock, clock() + longest
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        """Frames that belong to no lane yet."""
        self._lanes = {_DEFAULT: _Lane(_DEFAULT)}
        self._cache = ConnectionCache(gateway.services.settings.limits.body_bytes)
        self._slots = asyncio.Semaphore(MOST_RUNNING)
        self._working: set[asyncio.Task[None]] = set()
        self._on_disconnect: dict[str, Callable[[], None]] = {}
        """What the running turns want to have called when the client disconnects, by lane."""
        self._is_stopping = self._is_ending = self._is_disconnected = False
        """Whether the server stops, no more turns begin, and the client has disconnected."""
        self._turns = 0
        self._queued = self._queued_bytes = 0
        """Frames whose turns have not begun."""

    async def serve(self) -> None:
        self._channel.accept()
        reading = asyncio.create_task(self._read())
        try:
            while await self._dispatch(await self._next()):
                pass
            await self._end()
        finally:
            for task in (reading, *self._working):
                task.cancel()
            await asyncio.gather(reading, *self._working, return_exceptions=True)

    # Reading frames

    async def _read(self) -> None:
        """Queue frames. If the client disconnects, end the running turns and drop the queued frames."""
        with suppress(ChannelClosed):
            while self._enqueue(await self._channel.receive()):
                pass
        self._is_ending = self._is_disconnected = True
        self._frames.put_nowait(None)
        for stop_turn in list(self._on_disconnect.values()):
            stop_turn()

    def _enqueue(self, frame: str | None) -> bool:
        """Queue a frame; return False after the last one. None: the server stops. This is a function of its
        own, so that no reference to a large frame stays until the next message."""
        limits = self._gateway.services.settings.limits
        if frame is None:
            self._is_stopping = True
            self._frames.put_nowait(None)
        elif self._queued >= _MOST_QUEUED or self._queued_bytes > limits.body_bytes:
            self._channel.close(_TOO_MANY)
            return False
        else:
            self._count(frame, 1)
            self._frames.put_nowait(frame)
        return True

    def _count(self, frame: str, step: int) -> None:
        self._queued += step
        self._queued_bytes += step * len(frame)

    async def _next(self) -> str | None:
        """Return the next frame; None if no more turns begin."""
        try:
            async with asyncio.timeout(self._until - self._clock()):
                frame = await self._frames.get()
        except TimeoutError:
            return None
        return None if self._is_stopping or self._is_expired else frame

    @property
    def _is_expired(self) -> bool:
        return self._clock() >= self._until

    async def _dispatch(self, frame: str | None) -> bool:
        """Pass a frame to its lane; return False if there was none left."""
        if frame is None:
            return False
        address = await run_heavy(weight_of(frame), address_of, frame)
        if address.type == STEER:
            self._count(frame, -1)
            await self._refuse_steering(frame)
            return True
        try:
            lane = self._lane(address.stream_id)
        except RequestRefused as refused:
            self._count(frame, -1)
            is_valid = isinstance(address.stream_id, str) and STREAM_ID.fullmatch(address.stream_id)
            self._send_error(refused, address.stream_id if is_valid else _DEFAULT)
            return True
        lane.frames.append(frame)
        if not lane.is_busy:
            lane.is_busy = True
            task = asyncio.create_task(self._work(lane))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        return True

    def _lane(self, stream_id: object) -> _Lane:
        if stream_id is None:
            return self._lanes[_DEFAULT]
        if not isinstance(stream_id, str) or not STREAM_ID.fullmatch(stream_id):
            message = "stream_id must have 1 to 256 letters, digits, `_`, `-` or `.`"
            raise RequestRefused(400, "invalid_stream_id", message, param="stream_id")
        if stream_id not in self._lanes and len(self._lanes) > MOST_LANES:
            message = (
                f"this connection has used {MOST_LANES} stream_ids: use one of them, or a new connection"
            )
            raise RequestRefused(400, "websocket_stream_limit_reached", message, param="stream_id")
        return self._lanes.setdefault(stream_id, _Lane(stream_id))

    async def _refuse_steering(self, frame: str) -> None:
        id, input = await run_heavy(weight_of(frame), steered_response, frame)
        lanes = (lane.stream_id for lane in self._lanes.values() if id and lane.response_id == id)
        self._channel.send(steer_failed(id, input, next(lanes, _DEFAULT)).encode())

    # Sending

    def _send_error(self, refused: RequestRefused, stream_id: str) -> None:
        self._channel.send(envelope(refused, stream_id).encode())

    async def _end(self) -> None:
        """Wait for the running turns, and close the connection. A connected client gets the reason."""
        self._is_ending = True
        if self._working:
            await asyncio.wait(self._working)
        if self._is_disconnected:
            return
        code = _RESTARTING
        if not self._is_stopping:
            code = _GOING_AWAY
            message = (
                "this connection has reached its limit of 60 minutes: continue the last response on a new one"
            )
            refused = RequestRefused(400, "websocket_connection_limit_reached", message)
            self._send_error(refused, _DEFAULT)
        self._channel.close(code)

    # Turns

    async def _work(self, lane: _Lane) -> None:
        """Run the turns of a lane, as long as there are any."""
        while lane.frames:
            async with self._slots:
                if self._is_ending or self._is_stopping or self._is_expired:
                    break
                self._count(lane.frames[0], -1)
                await self._answer(lane, lane.frames.popleft())
        lane.is_busy = False

    def _watch(self, lane: _Lane, callback: Callable[[], None] | None) -> None:
        """Set what is called when the client disconnects while the turn of a lane runs."""
        if callback is None:
            self._on_disconnect.pop(lane.stream_id, None)
        else:
            self._on_disconnect[lane.stream_id] = callback

    async def _answer(self, lane: _Lane, frame: str) -> None:
        self._turns += 1
        continued = ""
        # Each turn has its own verdict, under a request id of its own.
        exchange = self._exchange.renamed(f"{self._exchange.request_id}-{self._turns}")
        try:
            limits, weight = self._gateway.services.settings.limits, weight_of(frame)
            create = await run_heavy(weight, read_create, frame, limits)
            del frame  # it may be large, and the turn may be long
            continued = create.request.previous_response_id or ""
            has_failed = await self._turn(lane, exchange, create, weight)
        except Exception as error:
            has_failed = True
            self._send_error(refusal_for(error, exchange.request_id), lane.stream_id)
        if has_failed:
            self._cache.forget(lane.stream_id, continued)
        lane.ended.set()

    async def _turn(self, lane: _Lane, exchange: SocketExchange, create: Create, weight: int) -> bool:
        """Run one turn; return True if it failed."""
        gateway, given, key = self._gateway, create.request, self._current_key()
        gateway.refuse_if_full()
        request = check_request(given, gateway.services.settings.default_model)
        watch = Stopwatch(gateway.services.clock)
        local = await self._local(request.previous_response_id or None)
        resolved = await complete(gateway, key, request, weight, local)
        resolved = replace(resolved, diagnostics=(*create.diagnostics, *resolved.diagnostics))
        prepared = await run_heavy(
            resolved.weight, prepare_any, gateway, exchange, key, resolved, watch, error_event=False
        )
        accent = ACCENTS[prepared.accent]()
        lane.response_id, lane.ended = prepared.turn.id, asyncio.Event()
        outlet = SocketOutlet(self._channel, accent, prepared.keeper, prepared.verdict, lane.stream_id)
        if self._is_disconnected:
            return True  # during the lookup of its history, when there was no turn to stop
        prepared.verdict.stream = True
        if given.generate is False:
            await _warm_up(gateway, prepared, outlet, exchange)
        else:
            await run_turn(gateway, prepared, outlet, exchange, partial(self._watch, lane))
        snapshot = prepared.machine.snapshot
        if outlet.is_refused or snapshot.status == "failed":
            return True
        conversation = resolved.request.input
        items: list[Item] = [*(conversation if isinstance(conversation, list) else []), *snapshot.output]
        history = ConnectionHistory(snapshot.id, tuple(items), snapshot.store, resolved.weight)
        self._cache.put(lane.stream_id, history)
        return False

    def _current_key(self) -> ClientKey | None:
        """Return the client's key with its current settings. It may have been revoked, or have expired, since
        the connection was opened: then no turn begins."""
        key = authenticate(self._gateway.services.settings, self._exchange.headers, self._gateway.clock)
        if tenant_of(key) != tenant_of(self._key):
            message = "the keys of this gateway have changed: open a new connection"
            raise RequestRefused(401, "authentication_error", message)
        return key

    async def _local(self, id: str | None) -> ConnectionHistory | None:
        """Return the history of this connection that ends with a response. If that response still runs in
        another lane, wait for its end, as a follow-up over HTTP does (decision 17)."""
        for lane in self._lanes.values():
            if id and lane.response_id == id:
                await lane.ended.wait()
        return self._cache.find(id)


async def _warm_up(
    gateway: Gateway, prepared: Prepared, outlet: SocketOutlet, exchange: SocketExchange
) -> None:
    """Run a turn that does not call the model: Codex opens a connection with one. It is in the ledger."""
    prepared.admission.reserve_nothing()
    await admit_turn(gateway, prepared, exchange)
    try:
        outlet.write(_warmed_up(prepared))
        await outlet.flush()
    finally:
        prepared.verdict.closer = "gateway"
        conclude(prepared.verdict, prepared.machine.snapshot, prepared.watch)
        close_turn(gateway, prepared)


def _warmed_up(prepared: Prepared) -> list[Event]:
    machine = prepared.machine
    events = machine.start()
    for each in prepared.turn.known:
        events += machine.apply(DiagnosticDelta(each.code, each.message))
    return [*events, *machine.finish(FinishReason.STOP)]
