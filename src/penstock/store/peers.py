"""The workers that share a store: who runs which turn, who is alive, and who follows whose turns.

Each running turn belongs to one worker, which holds it by a claim token: the store refuses what is written
under another token. A worker renews its lease regularly. When the lease of a worker has expired, another
worker takes its turns over: one that had started ends as failed and never runs again, a background turn that
had not started is started (decision 33).

A worker that follows a turn of another one asks its owner for news over a `Bus`. A bus may lose messages, so
whoever waits also looks into the store once per second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.backend import Orphan, WorkerBackend
from penstock.store.contract import LoggedEvent, TurnHost
from penstock.store.turn_buffer import ChangeSignal, TurnBuffer
from penstock.stream.recovery import WORKER_LOST

_log = logging.getLogger("penstock.store")

RENEWALS = 4
"""How often a lease is renewed before it would expire."""
WATCH_FOR = 5.0
"""Seconds for which an owner sends news to a worker that does not ask again."""
_WATCH_AGAIN = 2.0
_SHORTEST_TICK = 0.1
_SEND_DELAY = 0.005
"""Seconds for which events are gathered before they are sent to other workers."""
_ORPHANS_AT_ONCE = 50

Key = tuple[str, str]
"""A tenant, and the id of a response."""


class PeerTimes(Struct, frozen=True, kw_only=True):
    lease: float = 10.0
    """Seconds after which a worker that does not renew its lease is considered dead."""
    tick: float = 1.0
    """Seconds between two looks into the store, whatever messages say."""


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

    most_bytes: int
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
        self.events: list[LoggedEvent] = []
        """The latest events that its owner has sent."""
        self.followers = 0
        self.version = 0
        """Changes with every piece of news."""
        self._changed = ChangeSignal()

    async def news_after(self, version: int) -> None:
        """Wait for news that came after this version."""
        if self.version == version:
            await self._changed.wait()

    def notify(self) -> None:
        self.version += 1
        self._changed.notify()

    def take(self, after: int) -> list[LoggedEvent]:
        """Return the events that continue the log after a sequence number; none if some are missing."""
        events = [event for event in self.events if event.sequence > after]
        return events if events and events[0].sequence == after + 1 else []

    def add(self, events: Sequence[LoggedEvent]) -> None:
        self.events = [*self.events, *events][-_MOST_EVENTS:]
        self.notify()


_MOST_EVENTS = 1000
"""Events that are kept of a followed turn: whoever is slower reads the store."""


class Peers:
    """This worker among the others. Belongs to one event loop."""

    def __init__(
        self,
        worker: str,
        backend: WorkerBackend,
        bus: Bus,
        turns: dict[str, TurnBuffer],
        *,
        adopt: Callable[[Orphan], Coroutine[None, None, None]],
        times: PeerTimes,
    ) -> None:
        """`turns` are those that this worker runs. `adopt` ends or starts a turn that was taken over."""
        self.worker = worker
        self._backend, self._bus, self._turns = backend, bus, turns
        self._adopt, self._lease, self._tick = adopt, times.lease, times.tick
        self._host: TurnHost | None = None
        self._followed: dict[Key, FollowedTurn] = {}
        self._watchers: dict[Key, dict[str, float]] = {}
        """The workers that follow turns of this one, and until when they do."""
        self._outgoing: dict[Key, list[LoggedEvent]] = {}
        self._has_timer = False
        self._loop = asyncio.get_running_loop()
        self._contact_since: float | None = None
        """Since when every renewal has succeeded."""
        self._task: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[None]] = set()
        self._wake_up = asyncio.Event()

    async def start(self) -> None:
        """Join the others; raise `StoreError` if the store cannot be reached."""
        await self._backend.renew(self.worker, self._lease)
        self._contact_since = self._loop.time()
        self._bus.listen(self.worker, self._receive, self._something_changed)
        self._task = asyncio.create_task(self._run())

    @property
    def has_contact(self) -> bool:
        """Whether the store could be reached at the last look."""
        return self._contact_since is not None

    def attach(self, host: TurnHost) -> None:
        self._host = host

    async def aclose(self) -> None:
        """Stop looking after turns. The backend removes this worker when it is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, *self._adopting, return_exceptions=True)
        await self._bus.aclose()

    # Turns of other workers

    async def owner(self, tenant: str, id: str) -> str | None:
        return await self._backend.owner(tenant, id)

    @asynccontextmanager
    async def following(self, tenant: str, id: str, owner: str) -> AsyncIterator[FollowedTurn]:
        """Get news of a turn of another worker. Whoever waits for news is woken up once per second in any
        case."""
        key = tenant, id
        followed = self._followed.setdefault(key, FollowedTurn())
        followed.followers += 1
        asking = asyncio.create_task(self._keep_asking(key, owner, followed))
        try:
            yield followed
        finally:
            asking.cancel()
            followed.followers -= 1
            if not followed.followers:
                del self._followed[key]
                self._send(owner, "unwatch", key)

    async def _keep_asking(self, key: Key, owner: str, followed: FollowedTurn) -> None:
        while True:
            self._send(owner, "watch", key)
            for _ in range(max(round(_WATCH_AGAIN / self._tick), 1)):
                await asyncio.sleep(self._tick)
                followed.notify()

    async def wait_for_end(self, tenant: str, id: str) -> bool:
        """Wait until a turn of another worker has ended; return whether it was running."""
        was_running = False
        while (owner := await self._backend.owner(tenant, id)) is not None:
            was_running = True
            async with self.following(tenant, id, owner) as followed:
                version = followed.version
                if await self._backend.owner(tenant, id) == owner:
                    await followed.news_after(version)
        return was_running

    async def wait_for_conversation(self, tenant: str, conversation_id: str) -> None:
        """Wait until the turns that are running in a conversation have ended."""
        for id in await self._backend.running_in(tenant, conversation_id):
            if id not in self._turns:
                await self.wait_for_end(tenant, id)

    async def cancel(self, tenant: str, id: str) -> bool:
        """Ask the worker that runs a turn to cancel it; return False if it is not running."""
        owner = await self._backend.request_cancel(tenant, id)
        if owner is not None:
            self._send(owner, "cancel", (tenant, id))
        return owner is not None

    # Turns of this worker

    async def start_turn(self, running: TurnBuffer) -> bool:
        """Record that an upstream may be called for a turn; return False if it has been taken over."""
        return await self._backend.start(running.opened.tenant, running.opened.id, running.token)

    def logged(self, id: str, events: Sequence[LoggedEvent]) -> None:
        """Send new events to the workers that follow a turn, if the bus carries them."""
        if not self._watchers or not self._bus.most_bytes or (running := self._turns.get(id)) is None:
            return
        key = running.opened.tenant, id
        if key not in self._watchers:
            return
        self._outgoing.setdefault(key, []).extend(events)
        if not self._has_timer:
            self._has_timer = True
            self._loop.call_later(_SEND_DELAY, self._send_events)

    def _send_events(self) -> None:
        self._has_timer = False
        outgoing, self._outgoing = self._outgoing, {}
        for key, events in outgoing.items():
            self._tell(key, events)

    def written(self, turns: Iterable[TurnBuffer]) -> None:
        """Tell the workers that follow these turns that the store has more of them."""
        for running in turns:
            key = running.opened.tenant, running.opened.id
            if key in self._watchers:
                self._tell(key, ())
                if running.end is not None:
                    self._forget(key)

    def taken_over(self, running: TurnBuffer) -> None:
        """Stop a turn that another worker has taken over."""
        if self._host is not None:
            self._host.lose(running.opened.tenant, running.opened.id)

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
        data = _encoder.encode(WorkerMessage(kind, self.worker, *key, list(events)))
        if events and len(data) > self._bus.most_bytes:  # the receiver reads the store instead
            data = _encoder.encode(WorkerMessage(kind, self.worker, *key))
        self._bus.send(worker, data)

    def _receive(self, data: bytes) -> None:
        try:
            message = _decoder.decode(data)
        except msgspec.MsgspecError:
            _log.warning("a message of another worker cannot be read", extra=_fields("bus"))
            return
        key = message.tenant, message.id
        if message.kind == "news":
            if (followed := self._followed.get(key)) is not None:
                followed.add(message.events)
        elif message.kind == "cancel":
            self._cancel(key)
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
        if is_new and self._bus.most_bytes and running.events:
            self._send(worker, "news", key, running.events)  # they may not be in the store yet

    def _cancel(self, key: Key) -> None:
        running = self._turns.get(key[1])
        if running is not None and running.opened.tenant == key[0] and self._host is not None:
            self._host.cancel(*key)

    def _something_changed(self) -> None:
        for followed in self._followed.values():
            followed.notify()
        if self._turns:
            self._wake_up.set()

    # Life and death

    async def _run(self) -> None:
        """Renew the lease, look for cancelled and lost turns of this worker, and for dead workers."""
        renew_at = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tick):
                    await self._wake_up.wait()
            self._wake_up.clear()
            try:
                if self._loop.time() >= renew_at:
                    renew_at = self._loop.time() + self._lease / RENEWALS
                    await self._renew()
                if self._turns:
                    await self._check_turns()
            except StoreError:
                self._contact_since = None  # the writer logs failures of the store
                renew_at = 0.0
            except Exception:
                _log.exception("a worker cannot look after its turns", extra=_fields("peers"))
            self._drop_old_watchers()
            await asyncio.sleep(min(_SHORTEST_TICK, self._tick))

    async def _renew(self) -> None:
        await self._backend.renew(self.worker, self._lease)
        if self._contact_since is None:
            self._contact_since = self._loop.time()
        # A worker that lost contact waits one lease: the others may not have renewed theirs either.
        if self._loop.time() - self._contact_since >= self._lease:
            await self._take_over_orphans()

    async def _check_turns(self) -> None:
        before = {id: running for id, running in self._turns.items() if _is_claimed(running)}
        claimed = {each.id: each for each in await self._backend.claimed(self.worker)}
        for id, running in before.items():
            known = claimed.get(id)
            if known is not None and known.token == running.token:
                if known.is_cancelled:
                    self._cancel((known.tenant, id))
            elif _is_claimed(running):
                self.taken_over(running)

    def _drop_old_watchers(self) -> None:
        now = self._loop.time()
        for key, watchers in [*self._watchers.items()]:
            for worker in [worker for worker, until in watchers.items() if until < now]:
                del watchers[worker]
            if not watchers:
                self._forget(key)

    async def _take_over_orphans(self) -> None:
        for orphan in await self._backend.claim_orphans(self.worker, _ORPHANS_AT_ONCE):
            _log.warning(
                "a worker died: one of its turns was taken over",
                extra=_fields(WORKER_LOST, response_id=orphan.turn.id),
            )
            task = asyncio.create_task(self._adopt(orphan))
            self._adopting.add(task)
            task.add_done_callback(self._adopting.discard)
        await self._backend.settle_orphans(WORKER_LOST)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WorkerMessage)


def _is_claimed(running: TurnBuffer) -> bool:
    """Return whether the store must know this turn as a running one of this worker."""
    return running.is_stored and running.end is None and not running.is_lost


def _fields(code: str, **more: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code, **more}}
