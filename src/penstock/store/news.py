"""News of running turns, from the worker that runs a turn to those that follow it.

A worker that follows a turn of another one asks its owner for news over a `Bus`. A bus may lose messages, so
whoever waits also looks into the store once per second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from penstock.store.backend import WorkerBackend
from penstock.store.contract import TurnHost
from penstock.store.records import LoggedEvent
from penstock.store.turn_buffer import ChangeSignal, TurnBuffer

_log = logging.getLogger("penstock.store")

WATCH_FOR = 5.0
"""Seconds for which an owner sends news to a worker that does not ask again."""
_WATCH_AGAIN = 2.0
_SEND_DELAY = 0.005
"""Seconds for which events are gathered before they are sent to other workers."""
_MOST_EVENTS = 1000
_MOST_BYTES = 1024 * 1024
"""Events that are kept of a followed turn, and their bytes: whoever needs more reads the store."""
_STEP = 64
"""Events that a reader gets at a time."""

Key = tuple[str, str]
"""A tenant, and the id of a response."""


class WorkerMessage(Struct, frozen=True, array_like=True):
    """What one worker tells another. Old and new workers run side by side during an upgrade: a field may
    only be added at the end, with a default, and an unknown kind is ignored."""

    kind: str
    """`watch` and `unwatch` a turn of the receiver; `news` of a turn: its log has grown, or it has ended;
    `cancel` a turn of the receiver."""
    sender: str
    tenant: str
    id: str
    events: list[LoggedEvent] = []
    """For `news`: the new events, if the bus carries them."""


Kind = Literal["watch", "unwatch", "news", "cancel"]


class Bus(Protocol):
    """Carries messages between workers. Nothing here waits, and everything may be lost."""

    @property
    def most_bytes(self) -> int:
        """The largest message that may contain events; 0: none may, and an owner says only that there are
        some."""

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:
        """Pass the messages to this worker on. `changed` is called when messages may have been lost: the bus
        was disconnected for a while."""

    def send(self, worker: str, data: bytes) -> None: ...

    async def aclose(self) -> None: ...


class FollowedTurn:
    """What this worker knows of a turn that another worker runs."""

    def __init__(self) -> None:
        self.followers = 0
        self.version = 0
        """Changes with every piece of news."""
        self.asking: asyncio.Task[None] | None = None
        self._events: list[LoggedEvent] = []
        """The latest events that its owner has sent, with no number missing."""
        self._size = 0
        self._changed = ChangeSignal()

    async def news_after(self, version: int) -> None:
        """Wait for news that came after this version."""
        if self.version == version:
            await self._changed.wait()

    def notify(self) -> None:
        self.version += 1
        self._changed.notify()

    def take(self, after: int) -> list[LoggedEvent]:
        """Return some events that continue the log after a sequence number; none if the next is missing."""
        begin = after + 1 - self._events[0].sequence if self._events else -1
        return self._events[begin : begin + _STEP] if begin >= 0 else []

    def add(self, events: Sequence[LoggedEvent]) -> None:
        """Add events that its owner has sent. A message may repeat some, or follow one that was lost: then
        the events before it are read from the store."""
        for event in events:
            last = self._events[-1].sequence if self._events else event.sequence - 1
            if event.sequence <= last:
                continue
            if event.sequence > last + 1:
                self._events, self._size = [], 0
            self._events.append(event)
            self._size += len(event.data)
        self._forget_oldest()
        self.notify()

    def _forget_oldest(self) -> None:
        count = 0
        while len(self._events) - count > _MOST_EVENTS or self._size > _MOST_BYTES:
            self._size -= len(self._events[count].data)
            count += 1
        del self._events[:count]


class TurnNews:
    """The news that this worker gets and sends. Belongs to one event loop."""

    def __init__(
        self, worker: str, backend: WorkerBackend, bus: Bus, turns: dict[str, TurnBuffer], tick: float
    ) -> None:
        """`turns` are those that this worker runs. `tick` is how long a follower waits without news."""
        self._worker, self._backend, self._bus = worker, backend, bus
        self._turns, self._tick = turns, tick
        self._host: TurnHost | None = None
        self._followed: dict[tuple[Key, str], FollowedTurn] = {}
        """By turn and owner: what an earlier owner sends is not part of the log any more."""
        self._watchers: dict[Key, dict[str, float]] = {}
        """The workers that follow turns of this one, and until when they do."""
        self._outgoing: dict[Key, list[LoggedEvent]] = {}
        self._has_timer = False
        self._loop = asyncio.get_running_loop()
        self._changed: Callable[[], None] = lambda: None
        self._is_garbled = False
        """Whether a message could not be read."""
        self._is_closed = False

    def listen(self, changed: Callable[[], None]) -> None:
        """Take messages from now on. `changed` is called when there may be something new in the store."""
        self._changed = changed
        self._bus.listen(self._worker, self._receive, self._something_changed)

    def attach(self, host: TurnHost) -> None:
        self._host = host

    async def aclose(self) -> None:
        """Wake up whoever follows a turn: there will be no more news."""
        self._is_closed = True
        asking = [followed.asking for followed in self._followed.values() if followed.asking is not None]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        for followed in self._followed.values():
            followed.notify()
        await self._bus.aclose()

    # Turns of other workers

    @asynccontextmanager
    async def following(self, tenant: str, id: str, owner: str) -> AsyncIterator[FollowedTurn]:
        """Get news of a turn of another worker. Whoever waits for news is woken up once per tick in any
        case."""
        key = tenant, id
        followed = self._followed.setdefault((key, owner), FollowedTurn())
        followed.followers += 1
        if followed.asking is None and not self._is_closed:
            followed.asking = asyncio.create_task(self._keep_asking(key, owner, followed))
        try:
            yield followed
        finally:
            followed.followers -= 1
            if not followed.followers:
                del self._followed[key, owner]
                if followed.asking is not None:
                    followed.asking.cancel()
                self._send(owner, "unwatch", key)

    async def _keep_asking(self, key: Key, owner: str, followed: FollowedTurn) -> None:
        while True:
            self._send(owner, "watch", key)
            for _ in range(max(round(_WATCH_AGAIN / self._tick), 1)):
                await asyncio.sleep(self._tick)
                followed.notify()

    def ask_to_cancel(self, owner: str, key: Key) -> None:
        self._send(owner, "cancel", key)

    # Turns of this worker

    def logged(self, id: str, events: Sequence[LoggedEvent]) -> None:
        """Send new events to the workers that follow a turn, if the bus carries them."""
        if not self._watchers or not self._bus.most_bytes or (running := self._turns.get(id)) is None:
            return
        key = running.opened.tenant, id
        is_logged = events and running.events and running.events[-1] is events[-1]
        if key not in self._watchers or not is_logged:
            return
        self._outgoing.setdefault(key, []).extend(events)
        if not self._has_timer:
            self._has_timer = True
            self._loop.call_later(_SEND_DELAY, self._send_events)

    def _send_events(self) -> None:
        self._has_timer = False
        outgoing, self._outgoing = self._outgoing, {}
        for key, events in outgoing.items():
            running = self._turns.get(key[1])
            if running is not None and running.end is None:
                self._tell(key, events)
            # An end is announced when it is stored: another worker may have taken the turn over and ended it.

    def written(self, turns: Iterable[TurnBuffer]) -> None:
        """Tell the workers that follow these turns that the store has more of them."""
        for running in turns:
            key = running.opened.tenant, running.opened.id
            if key in self._watchers:
                self._tell(key, ())
                if self._turns.get(running.opened.id) is not running:  # its end is written
                    self._forget(key)

    def lost(self, key: Key) -> None:
        """Tell the workers that follow a turn that another one has taken it over."""
        self._outgoing.pop(key, None)
        self._tell(key, ())
        self._forget(key)

    def cancel(self, key: Key) -> None:
        """Cancel a turn, if this worker runs it."""
        running = self._turns.get(key[1])
        if running is not None and running.opened.tenant == key[0] and self._host is not None:
            self._host.cancel(*key)

    def drop_old_watchers(self) -> None:
        now = self._loop.time()
        for key, watchers in [*self._watchers.items()]:
            for worker in [worker for worker, until in watchers.items() if until < now]:
                del watchers[worker]
            if not watchers:
                self._forget(key)

    def _tell(self, key: Key, events: Sequence[LoggedEvent]) -> None:
        now = self._loop.time()
        watchers = self._watchers.get(key, {})
        for worker, until in [*watchers.items()]:
            if until < now:
                del watchers[worker]
            else:
                self._send(worker, "news", key, events)
        if not watchers:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        if self._watchers.pop(key, None) is not None and self._host is not None:
            self._host.followed(*key, False)

    # Messages

    def _send(self, worker: str, kind: Kind, key: Key, events: Sequence[LoggedEvent] = ()) -> None:
        """Send a message, with the latest of these events that fit into one. While this worker is adopting a
        turn, it is the owner itself, and will notice."""
        if self._is_closed or worker == self._worker:
            return
        message = WorkerMessage(kind, self._worker, *key, _latest(events, self._bus.most_bytes))
        try:
            self._bus.send(worker, _encoder.encode(message))
        except Exception:
            _log.exception("a message to another worker cannot be sent", extra=_fields("bus"))

    def _receive(self, data: bytes) -> None:
        """Take a message, whatever it is: nothing may stop the bus."""
        try:
            message = _decoder.decode(data)
        except msgspec.MsgspecError:
            if not self._is_garbled:  # the first of them, not each token's
                _log.warning("a message of another worker cannot be read", extra=_fields("bus"))
            self._is_garbled = True
            return
        try:
            self._handle(message)
        except Exception:
            _log.exception("a message of another worker cannot be handled", extra=_fields("bus"))

    def _handle(self, message: WorkerMessage) -> None:
        key = message.tenant, message.id
        if message.kind == "news":
            if (followed := self._followed.get((key, message.sender))) is not None:
                followed.add(message.events)
        elif message.kind == "cancel":
            self.cancel(key)
        elif message.kind == "watch":
            self._add_watcher(key, message.sender)
        elif message.kind == "unwatch" and key in self._watchers:
            self._watchers[key].pop(message.sender, None)
            if not self._watchers[key]:
                self._forget(key)

    def _add_watcher(self, key: Key, worker: str) -> None:
        running = self._turns.get(key[1])
        if running is None or running.opened.tenant != key[0]:
            self._send(worker, "news", key)  # it has ended
            return
        if key not in self._watchers:
            self._watchers[key] = {}
            if self._host is not None:
                self._host.followed(*key, True)
        is_new = worker not in self._watchers[key]
        self._watchers[key][worker] = self._loop.time() + WATCH_FOR
        if is_new and self._bus.most_bytes and running.events and running.end is None:
            self._send(worker, "news", key, running.events)  # they may not be in the store yet

    def _something_changed(self) -> None:
        for followed in self._followed.values():
            followed.notify()
        self._changed()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WorkerMessage)


def _latest(events: Sequence[LoggedEvent], most_bytes: int) -> list[LoggedEvent]:
    """Return the last of these events, as many as fit into a message."""
    size, begin = _HEAD_BYTES, len(events)
    while begin and (size := size + len(events[begin - 1].data) + _EVENT_BYTES) <= most_bytes:
        begin -= 1
    return [*events[begin:]]


_HEAD_BYTES, _EVENT_BYTES = 1024, 32
"""What a message takes, and an event in it, besides their contents."""


def _fields(code: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code}}
