"""A store that several workers share: any of them answers for every response.

A turn that this worker runs is read from memory, as in any `BufferedStore`. A turn that another worker runs
is read from the backend and from what its worker sends (`store.peers`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol
from uuid import uuid4

from penstock.errors import StoreError
from penstock.store.backend import Backend, Orphan, WorkerBackend
from penstock.store.batch_writer import BatchWriter
from penstock.store.buffered import BufferedStore, discarded_as_failed
from penstock.store.contract import TurnHost
from penstock.store.interrupted import end_interrupted
from penstock.store.news import Bus
from penstock.store.peers import Peers, PeerTimes
from penstock.store.records import RUNNING, HeldKey, LoggedEvent, Opened, StoredResponse, StoredTurn
from penstock.store.turn_buffer import TurnBuffer
from penstock.stream.recovery import WORKER_LOST

_log = logging.getLogger("penstock.store")

_ENDED_AT_ONCE = 10
"""Turns of dead workers whose logs are in memory at the same time."""


class SharedBackend(Backend, WorkerBackend, Protocol):
    """A backend that knows the workers."""


class SharedStore(BufferedStore[BatchWriter]):
    """See `contract.Store` for what each method promises. `join` must be called before anything else."""

    def __init__(
        self,
        backend: SharedBackend,
        writer: BatchWriter,
        bus: Bus,
        worker: str,
        clock: Callable[[], float],
        times: PeerTimes,
    ) -> None:
        super().__init__(backend, writer, clock, worker)
        self._peers = Peers(
            worker, backend, bus, writer.turns, adopt=self._adopt, give_up=writer.give_up, times=times
        )
        self._tick = times.tick
        self._ending = asyncio.Semaphore(_ENDED_AT_ONCE)
        self._host: TurnHost | None = None
        self._news = self._peers.news
        writer.on_written = self._news.written
        writer.on_taken_over = self._peers.taken_over

    async def join(self) -> None:
        """Join the other workers; raise `StoreError` if the store cannot be reached."""
        await self._peers.start()

    @property
    def is_unavailable(self) -> bool:
        return self._writer.is_failing or not self._peers.has_contact

    async def hold(self, tenant: str, key: str, data: bytes) -> HeldKey | None:
        return await self._peers.hold(tenant, key, data)

    async def release(self, tenant: str, key: str) -> None:
        await self._peers.release(tenant, key)

    async def retire(self, tenant: str, key: str, data: bytes, seconds: float) -> None:
        await self._peers.retire(tenant, key, data, seconds)

    def attach(self, host: TurnHost) -> None:
        self._host = host
        self._peers.attach(host)

    # Running turns

    def _buffer(self, turn: Opened) -> TurnBuffer:
        return TurnBuffer(turn, token=uuid4().hex)

    async def start(self, id: str) -> bool:
        running = self._turns.get(id)
        return running is not None and await self._peers.start_turn(running)

    async def hand_over(self, id: str) -> bool:
        if (running := self._turns.get(id)) is not None:
            self._writer.hand_over(running)
            await self._peers.hand_over(running)
        return True

    async def cancel(self, tenant: str, id: str) -> bool:
        return await self._peers.cancel(tenant, id)

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:
        super().log(id, events, soon=soon)
        self._news.logged(id, events)

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        if self._turn(tenant, id) is not None:
            return await super().get(tenant, id)
        stored = await self._backend.response(tenant, id)
        if stored is None or stored.status not in RUNNING:
            return stored
        if await self._peers.owner(tenant, id) is not None:
            return stored
        stored = await self._backend.response(tenant, id)  # it has ended in between
        return await self._interrupted(stored) if stored and stored.status in RUNNING else stored

    async def events(self, tenant: str, id: str, after: int = -1) -> AsyncGenerator[LoggedEvent, None]:
        is_over = False
        while not is_over:
            running = self._turn(tenant, id)
            owner = None if running is not None else await self._peers.owner(tenant, id)
            if owner is not None:
                source = self._followed_events(tenant, id, owner, after)
            else:  # this worker runs it, or it has ended
                source = super().events(tenant, id, after)
            async with aclosing(source):
                async for event in source:
                    after = event.sequence
                    yield event
            has_moved = running is not None and running.is_taken_over and after != running.lost_end
            is_over = self._peers.is_closed or (owner is None and not has_moved)

    async def _followed_events(
        self, tenant: str, id: str, owner: str, after: int
    ) -> AsyncGenerator[LoggedEvent, None]:
        """Yield the log of a turn for as long as this other worker runs it."""
        async with self._news.following(tenant, id, owner) as followed:
            while not self._peers.is_closed:
                version = followed.version
                some = followed.take(after) or await self._backend.events(tenant, id, after)
                for event in some:
                    after = event.sequence
                    yield event
                if some:
                    continue
                # The worker that is adopting a turn is its owner already.
                if self._turn(tenant, id) is not None or await self._peers.owner(tenant, id) != owner:
                    return
                await followed.news_after(version)

    # Chains and conversations

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        is_read_again = False
        while True:
            turns = await self._stored_chain(tenant, id)
            running = [turn.id for turn in turns or () if turn.status in RUNNING]
            if turns is None or not running or is_read_again:
                return None if turns is None else [*map(discarded_as_failed, turns)]
            is_read_again = True
            for each in running:
                if await self._peers.wait_for_end(tenant, each):
                    is_read_again = False

    async def wait_for_turns(self, tenant: str, id: str) -> None:
        await super().wait_for_turns(tenant, id)
        await self._peers.wait_for_conversation(tenant, id)

    # Turns of dead workers

    async def _adopt(self, orphan: Orphan) -> None:
        """Start a background turn whose worker died before it did; end any other as failed (decision 33). If
        this worker stops meanwhile, leave the start to another one."""
        turn = orphan.turn
        if (earlier := self._turns.get(turn.id)) is not None:  # this worker ran it once, and lost it
            self._writer.give_up(earlier)
        running = TurnBuffer(turn, token=orphan.token)
        running.mark_stored()
        running.stored_sequence = orphan.last_sequence
        self._turns[turn.id] = running
        is_startable = turn.is_background and not orphan.is_started
        if is_startable and await self._is_started_by_host(orphan):
            return
        if is_startable and self._peers.is_draining:
            await self.hand_over(turn.id)
            return
        async with self._ending:
            await self._end_as_lost(orphan)

    async def _is_started_by_host(self, orphan: Orphan) -> bool:
        try:
            return self._host is not None and await self._host.start(orphan.turn, orphan.last_sequence)
        except Exception:
            _log.exception("a background turn cannot be started", extra={"response_id": orphan.turn.id})
            return False

    async def _end_as_lost(self, orphan: Orphan) -> None:
        turn = orphan.turn
        while True:
            try:
                log = await self._stored_log(turn.tenant, turn.id)
                break
            except StoreError as error:
                if error.code == StoreError.CLOSED:
                    return  # another worker takes it over
                await asyncio.sleep(self._tick)
            except Exception:
                # A log that cannot be read must not keep the turn from ending: it ends without its output.
                _log.exception("the log of a turn cannot be read", extra={"response_id": turn.id})
                log = [LoggedEvent(orphan.last_sequence, 0.0, b"")] if orphan.last_sequence >= 0 else []
                break
        interrupted = end_interrupted(turn.id, turn.response, log, self._clock(), code=WORKER_LOST)
        self.log(turn.id, interrupted.events)
        await self.close(turn.id, interrupted.end)

    async def aclose(self) -> list[str]:
        await self._peers.aclose()
        return await super().aclose()
