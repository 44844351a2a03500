"""The workers that share a store: who runs which turn, and who is alive.

Each running turn belongs to one worker, which holds it by a claim token: the store refuses what is written
under another token. A worker renews its lease regularly. When the lease of a worker has expired, another
worker takes its turns over: one that had started ends as failed and never runs again, a background turn that
had not started is started (decision 33). A worker that stops hands over what it has not started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.backend import Orphan, WorkerBackend
from penstock.store.contract import TurnHost
from penstock.store.news import Bus, Key, TurnNews
from penstock.store.records import HeldKey
from penstock.store.turn_buffer import TurnBuffer
from penstock.stream.recovery import WORKER_LOST

_log = logging.getLogger("penstock.store")

RENEWALS = 4
"""How often a lease is renewed before it would expire."""
_ORPHANS_AT_ONCE = 50
_SHORTEST_TICK = 0.1
_WAIT_TICK = 0.02
"""Least seconds between two looks at whether a turn has ended: news may come with every token."""


class PeerTimes(Struct, frozen=True, kw_only=True):
    lease: float = 10.0
    """Seconds after which a worker that does not renew its lease is considered dead."""
    tick: float = 1.0
    """Seconds between two looks into the store, whatever messages say."""


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
        give_up: Callable[[TurnBuffer], None],
        times: PeerTimes,
    ) -> None:
        """`turns` are those that this worker runs. `adopt` ends or starts a turn that was taken over;
        `give_up` discards one that another worker has taken over, and calls `taken_over`."""
        self.worker = worker
        self._backend, self._turns = backend, turns
        self._adopt, self._give_up = adopt, give_up
        self._lease, self._tick = times.lease, min(times.tick, times.lease / RENEWALS)
        self.news = TurnNews(worker, backend, bus, turns, self._tick)
        self._host: TurnHost | None = None
        self._loop = asyncio.get_running_loop()
        self._contact_since: float | None = None
        """Since when every renewal has succeeded, in time; None if the last one failed."""
        self._renewed_at = 0.0
        self._unknown: dict[str, float] = {}
        """The tokens of turns that the store says this worker runs, but it does not; and since when."""
        self._unreleased: dict[Key, Callable[[], Awaitable[None]]] = {}
        """Keys that may be held although nobody needs them, and what gives each of them back."""
        self._key_locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._handing_over: set[str] = set()
        """The tokens of turns that other workers may start, as soon as the store knows it."""
        self._task: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[None]] = set()
        self._wake_up = asyncio.Event()
        self.is_closed = False

    async def start(self) -> None:
        """Join the others; raise `StoreError` if the store cannot be reached."""
        await self._renew()
        self.news.listen(self._something_changed)
        self._task = asyncio.create_task(self._run())

    @property
    def has_contact(self) -> bool:
        """Whether the store could be reached at the last look, and this worker is not dead for the others."""
        return self._contact_since is not None and self._loop.time() - self._renewed_at < self._lease

    @property
    def is_draining(self) -> bool:
        return self._host is not None and self._host.is_draining

    def attach(self, host: TurnHost) -> None:
        self._host = host
        self.news.attach(host)

    async def aclose(self) -> None:
        """Stop looking after turns. The backend removes this worker when it is closed, and another one takes
        over the turns that are being adopted."""
        if self.is_closed:
            return
        self.is_closed = True
        tasks = [*self._adopting] if self._task is None else [self._task, *self._adopting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StoreError):
            await self._release_keys()
        await self.news.aclose()

    # Turns of other workers

    async def owner(self, tenant: str, id: str) -> str | None:
        return await self._backend.owner(tenant, id)

    async def wait_for_end(self, tenant: str, id: str) -> bool:
        """Wait until a turn of another worker has ended; return whether it was running. Raise `StoreError` if
        the store is closed."""
        was_running = False
        while (owner := await self._backend.owner(tenant, id)) is not None:
            was_running = True
            async with self.news.following(tenant, id, owner) as followed:
                version = followed.version
                while await self._backend.owner(tenant, id) == owner:
                    if self.is_closed:
                        raise StoreError(StoreError.CLOSED, "the store is closed")
                    await followed.news_after(version)
                    version = followed.version
                    await asyncio.sleep(_WAIT_TICK)
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
            self.news.ask_to_cancel(owner, (tenant, id))
        return owner is not None

    # Turns of this worker

    async def start_turn(self, running: TurnBuffer) -> bool:
        """Record that an upstream may be called for a turn; return False if it has been taken over."""
        return await self._backend.start(running.opened.tenant, running.opened.id, running.token)

    async def hand_over(self, running: TurnBuffer) -> None:
        """Let other workers start a turn, if need be later."""
        self._handing_over.add(running.token)
        with suppress(StoreError):
            await self._hand_over_turns()

    async def _hand_over_turns(self) -> None:
        for token in [*self._handing_over]:
            await self._backend.hand_over(token)
            self._handing_over.discard(token)

    def taken_over(self, running: TurnBuffer) -> None:
        """Stop a turn that another worker has taken over, and tell whoever follows it."""
        key = running.opened.tenant, running.opened.id
        self.news.lost(key)
        if self._host is not None:
            self._host.lose(*key)

    def _something_changed(self) -> None:
        if self._turns:  # one of them may be cancelled
            self._wake_up.set()

    # Life and death

    async def _run(self) -> None:
        """Renew the lease, look for cancelled and lost turns of this worker, and for dead workers."""
        renew_at = look_at = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tick):
                    await self._wake_up.wait()
            self._wake_up.clear()
            try:
                if self._loop.time() >= renew_at:
                    renew_at = self._loop.time() + self._lease / RENEWALS
                    await self._renew()
                    await self._release_keys()
                await self._hand_over_turns()
                if self._turns or self._loop.time() >= look_at:
                    await self._check_turns()
                if self._loop.time() >= look_at:
                    look_at = self._loop.time() + self._tick
                    await self._take_over_orphans()
            except StoreError:
                self._contact_since = None  # the writer logs failures of the store
                renew_at = 0.0
            except Exception:
                _log.exception("a worker cannot look after its turns", extra=_fields("peers"))
            self.news.drop_old_watchers()
            await asyncio.sleep(min(_SHORTEST_TICK, self._tick))

    async def _renew(self) -> None:
        await self._backend.renew(self.worker, self._lease)
        now = self._loop.time()
        if self._contact_since is None or now - self._renewed_at >= self._lease:
            self._contact_since = now  # it is new, or was stopped for so long that others thought it dead
        self._renewed_at = now

    async def _check_turns(self) -> None:
        before = {id: running for id, running in self._turns.items() if _is_claimed(running)}
        claimed = {each.id: each for each in await self._backend.claimed(self.worker)}
        for id, running in before.items():
            known = claimed.get(id)
            if known is not None and known.token == running.token:
                if known.is_cancelled:
                    self.news.cancel((known.tenant, known.id))
            elif _is_claimed(running):
                self._give_up(running)
        tokens = {running.token for running in self._turns.values()}
        await self._disown({each.token for each in claimed.values() if each.token not in tokens})

    async def _disown(self, unknown: set[str]) -> None:
        """Give up turns that this worker has claimed but does not run: their end could not be written and was
        discarded. One that is just being opened, adopted or ended is unknown only for a moment."""
        now = self._loop.time()
        self._unknown = {token: self._unknown.get(token, now) for token in unknown}
        for token, since in self._unknown.items():
            if now - since >= self._lease:
                await self._backend.disown(token)

    async def _take_over_orphans(self) -> None:
        # A worker that lost contact waits one lease: the others may not have renewed theirs either.
        since = self._contact_since
        if since is None or self._loop.time() - since < self._lease:
            return
        while self.has_contact and (
            orphans := await self._backend.claim_orphans(
                self.worker, _ORPHANS_AT_ONCE, only_started=self.is_draining
            )
        ):
            for orphan in orphans:
                _log.warning(
                    "a worker died, or left a turn that it had not started: it was taken over",
                    extra=_fields(WORKER_LOST, response_id=orphan.turn.id),
                )
                task = asyncio.create_task(self._adopt(orphan))
                self._adopting.add(task)
                task.add_done_callback(self._adopting.discard)
        await self._backend.settle_orphans(WORKER_LOST)

    # Keys

    async def hold(self, tenant: str, key: str, data: bytes) -> HeldKey | None:
        async with self._lock_of((tenant, key)):
            try:
                held = await self._backend.hold(tenant, key, self.worker, data)
            except BaseException:
                # It may be held nevertheless.
                self._unreleased[tenant, key] = partial(self._backend.release, tenant, key, self.worker)
                raise
            self._unreleased.pop((tenant, key), None)
            return held

    async def release(self, tenant: str, key: str) -> None:
        """Release a key, if need be later."""
        await self._give_back((tenant, key), partial(self._backend.release, tenant, key, self.worker))

    async def retire(self, tenant: str, key: str, data: bytes, seconds: float) -> None:
        """Retire a key, if need be later."""
        job = partial(self._backend.retire, tenant, key, self.worker, data, seconds)
        await self._give_back((tenant, key), job)

    async def _give_back(self, key: Key, job: Callable[[], Awaitable[None]]) -> None:
        self._unreleased[key] = job
        async with self._lock_of(key):
            if self._unreleased.get(key) is not job:
                return  # it was held again meanwhile
            await job()
            if self._unreleased.get(key) is job:
                del self._unreleased[key]

    def _lock_of(self, key: Key) -> asyncio.Lock:
        """Return the lock for what is done to a key. A late release must not undo that it was held again."""
        return self._key_locks.setdefault(key, asyncio.Lock())

    async def _release_keys(self) -> None:
        for key, job in [*self._unreleased.items()]:
            if self._unreleased.get(key) is job:
                await self._give_back(key, job)


def _is_claimed(running: TurnBuffer) -> bool:
    """Return whether the store must know this turn as a running one of this worker."""
    return running.is_stored and running.end is None and not running.is_lost


def _fields(code: str, **more: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code, **more}}
