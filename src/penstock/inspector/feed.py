"""`GET inspector/api/feed`: every turn that starts, changes or ends, as server-sent events.

While anybody watches, one task reads the ledger once per second, for all viewers of this process; otherwise
none does. So the feed covers all workers, and a running stream never notices it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import msgspec

from penstock.errors import StoreError
from penstock.gateway.api.log_stream import LogStream
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import authenticate, sees_all, tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.logs import log
from penstock.gateway.turn.prepare import limits_for
from penstock.gateway.turn.stream_outlet import STREAM_HEADERS
from penstock.inspector.answers import HEADERS
from penstock.inspector.ledger_watch import LedgerWatch, TooManyTurns
from penstock.sse import encode_frame
from penstock.store.ledger import TurnFilter, TurnRecord

INTERVAL = 1.0
"""Seconds between two readings of the ledger."""
MOST_WAITING = 1000
"""Turns that wait for a viewer. One that reads more slowly gets `reload` instead."""
MOST_VIEWERS, MOST_VIEWERS_OF_KEY = 200, 25
_LATEST = 253_402_300_800.0
_HEADERS = [*STREAM_HEADERS, *((name, value) for name, value in HEADERS if name not in dict(STREAM_HEADERS))]
_RELOAD = encode_frame("reload", b"{}")


class Viewer:
    """One client of the feed, and what waits for it."""

    def __init__(self, tenant: str | None, is_allowed: Callable[[], bool]) -> None:
        """`tenant`: None for every tenant's turns. `is_allowed` returns whether the client still may watch:
        its key may expire, or be removed."""
        self.tenant, self.is_allowed = tenant, is_allowed
        self.owner = ""
        """The tenant whose key the client has."""
        self.is_over = False
        self.changed = asyncio.Event()
        self._waiting: deque[bytes] = deque()

    def add(self, tenant: str, frame: bytes) -> None:
        if self.tenant not in (None, tenant):
            return
        if len(self._waiting) >= MOST_WAITING:
            self.reload()
            return
        self._waiting.append(frame)
        self.changed.set()

    def reload(self) -> None:
        """Let the client load the list again, instead of everything that waits."""
        self._waiting.clear()
        self._waiting.append(_RELOAD)
        self.changed.set()

    def end(self) -> None:
        self.is_over = True
        self.changed.set()

    def take(self) -> bytes:
        frames = b"".join(self._waiting)
        self._waiting.clear()
        return frames


class Feed:
    """The viewers of one gateway, and the task that reads the ledger for them."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False
        """Whether the last reading failed."""
        self._reading = asyncio.Lock()
        """Held while the ledger is read, so that no viewer gets an older state after a newer one."""

    async def follow(self, gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
        since = _since(exchange)
        if exchange.method == "HEAD":
            exchange.begin(200, _HEADERS)
            exchange.channel.end()
            return
        viewer = Viewer(None if sees_all(key) else tenant_of(key), _permission(gateway, exchange, key))
        viewer.owner = tenant_of(key)
        self._refuse_if_full(key)
        limits = limits_for(gateway.services.settings.limits, exchange)
        stream = LogStream(exchange, limits, _HEADERS)
        async with self._watched_by(gateway, viewer, since):
            hello = msgspec.json.encode({"now": gateway.clock()})
            await stream.write(encode_frame("hello", hello))
            await stream.run(_send(stream, viewer))

    def _refuse_if_full(self, key: ClientKey | None) -> None:
        """Raise `RequestRefused` if there are too many viewers. No key can keep the others out."""
        own = sum(viewer.owner == tenant_of(key) for viewer in self._viewers)
        if key is not None and own >= MOST_VIEWERS_OF_KEY:
            whose, most = "of this key ", MOST_VIEWERS_OF_KEY
        elif len(self._viewers) >= MOST_VIEWERS:
            whose, most = "", MOST_VIEWERS
        else:
            return
        message = f"{most} clients {whose}watch the feed of this process already: close one of them"
        raise RequestRefused(503, "server_is_overloaded", message, type="server_error")

    @asynccontextmanager
    async def _watched_by(self, gateway: Gateway, viewer: Viewer, since: float | None) -> AsyncIterator[None]:
        self._viewers.add(viewer)
        try:
            async with self._reading:
                if since is not None:
                    await _catch_up(gateway, viewer, since)
                if self._task is None:
                    watch = LedgerWatch(gateway.store, gateway.clock)
                    await self._changes(watch)  # what is there already is no change
                    self._task = asyncio.create_task(
                        self._read(gateway, watch), name="penstock inspector feed"
                    )
            yield
        finally:
            self._viewers.discard(viewer)
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read(self, gateway: Gateway, watch: LedgerWatch) -> None:
        try:
            while not gateway.is_draining:
                await asyncio.sleep(self._interval)
                async with self._reading:
                    self._publish(await self._changes(watch))
                for viewer in self._viewers:
                    if not viewer.is_allowed():
                        viewer.end()
        finally:
            if self._task is asyncio.current_task():  # nobody else reads for the viewers that are left
                self._task = None
                for viewer in self._viewers:
                    viewer.end()

    async def _changes(self, watch: LedgerWatch) -> list[TurnRecord] | None:
        """Return what has changed; None if that is too much. What cannot be read is read again."""
        try:
            changed = await watch.next()
        except TooManyTurns:
            return None
        except StoreError:  # the store logs it
            return []
        except Exception as error:
            if not self._has_failed:
                log.error("%s", f"the live feed cannot read the ledger: {type(error).__name__}")
            self._has_failed = True
            return []
        self._has_failed = False
        return changed

    def _publish(self, changed: list[TurnRecord] | None) -> None:
        if changed is None:
            for viewer in self._viewers:
                viewer.reload()
            return
        for record in changed:
            frame = _frame(record)
            for viewer in self._viewers:
                viewer.add(record.tenant, frame)


_feeds: WeakKeyDictionary[Gateway, Feed] = WeakKeyDictionary()


async def follow(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    """Send the feed of a gateway, until the client disconnects."""
    await _feeds.setdefault(gateway, Feed()).follow(gateway, exchange, key)


async def _catch_up(gateway: Gateway, viewer: Viewer, since: float) -> None:
    """Add the turns that have started since then, oldest first."""
    filter = TurnFilter(tenant=viewer.tenant, since=since)
    page = await gateway.store.turns(filter, limit=MOST_WAITING)
    if page.next:
        viewer.reload()
        return
    for record in reversed(page.turns):
        viewer.add(record.tenant, _frame(record))


async def _send(stream: LogStream, viewer: Viewer) -> None:
    while True:
        await viewer.changed.wait()
        viewer.changed.clear()
        if frames := viewer.take():
            await stream.write(frames)
        if viewer.is_over:
            await stream.write(b"", is_last=True)
            return


def _frame(record: TurnRecord) -> bytes:
    return encode_frame("turn", msgspec.json.encode(record))


def _permission(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> Callable[[], bool]:
    """Return a function that returns whether the client may still see what it could see at first."""

    def is_allowed() -> bool:
        settings = gateway.services.settings
        try:
            now = authenticate(settings, exchange.headers, gateway.clock)
        except RequestRefused:
            return False
        return settings.inspector and tenant_of(now) == tenant_of(key) and sees_all(now) == sees_all(key)

    return is_allowed


def _since(exchange: Exchange) -> float | None:
    text = exchange.query.get("since", "")
    if not text:
        return None
    try:
        since = float(text)
    except ValueError:
        since = -1.0
    if not 0 <= since < _LATEST:
        message = "since must be the started_at of a turn: seconds since 1970"
        raise RequestRefused(400, "invalid_request", message, param="since")
    return since
