"""A store that several workers share: any of them answers for every response.

A turn that this worker runs is read from memory, as in any `BufferedStore`. A turn that another worker runs
is read from the backend and from what its worker sends (`store.peers`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol
from uuid import uuid4

from penstock.store.backend import Backend, Orphan, WorkerBackend
from penstock.store.batch_writer import BatchWriter
from penstock.store.buffered import BufferedStore, discarded_as_failed
from penstock.store.contract import RUNNING, LoggedEvent, Opened, StoredResponse, StoredTurn, TurnHost
from penstock.store.interrupted import end_interrupted
from penstock.store.peers import Bus, Peers, PeerTimes
from penstock.store.turn_buffer import TurnBuffer
from penstock.stream.recovery import WORKER_LOST


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
        super().__init__(backend, writer, clock)
        self._shared = backend
        self._peers = Peers(worker, backend, bus, writer.turns, adopt=self._adopt, times=times)
        self._host: TurnHost | None = None
        writer.on_written = self._peers.written
        writer.on_taken_over = self._peers.taken_over

    async def join(self) -> None:
        """Join the other workers; raise `StoreError` if the store cannot be reached."""
        await self._peers.start()

    @property
    def is_unavailable(self) -> bool:
        return self._writer.is_failing or not self._peers.has_contact

    async def hold(self, tenant: str, key: str, data: bytes) -> bytes | None:
        return await self._shared.hold(tenant, key, self._peers.worker, data)

    async def release(self, tenant: str, key: str) -> None:
        await self._shared.release(tenant, key, self._peers.worker)

    def attach(self, host: TurnHost) -> None:
        self._host = host
        self._peers.attach(host)

    # Running turns

    def _buffer(self, turn: Opened) -> TurnBuffer:
        return TurnBuffer(turn, token=uuid4().hex)

    async def start(self, id: str) -> bool:
        running = self._turns.get(id)
        return running is not None and await self._peers.start_turn(running)

    async def cancel(self, tenant: str, id: str) -> bool:
        return await self._peers.cancel(tenant, id)

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:
        super().log(id, events, soon=soon)
        self._peers.logged(id, events)

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

    async def events(self, tenant: str, id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        if self._turn(tenant, id) is None:
            async for event in self._followed_events(tenant, id, after):
                after = event.sequence
                yield event
        # For a turn of this worker, or one that it took over in the meantime.
        async for event in super().events(tenant, id, after):
            yield event

    async def _followed_events(self, tenant: str, id: str, after: int) -> AsyncIterator[LoggedEvent]:
        """Yield the log of a turn for as long as another worker runs it."""
        while (owner := await self._peers.owner(tenant, id)) not in (None, self._peers.worker):
            async with self._peers.following(tenant, id, str(owner)) as followed:
                while True:
                    version = followed.version
                    some = followed.take(after) or await self._backend.events(tenant, id, after)
                    for event in some:
                        after = event.sequence
                        yield event
                    if some:
                        continue
                    if await self._peers.owner(tenant, id) != owner:
                        break
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
        """Start a background turn whose worker died before it did; end any other as failed (decision 33)."""
        turn = orphan.turn
        running = TurnBuffer(turn, token=orphan.token)
        running.mark_stored()
        running.stored_sequence = orphan.last_sequence
        self._turns[turn.id] = running
        if turn.is_background and not orphan.is_started and self._host is not None:  # noqa: SIM102
            if await self._host.start(turn, orphan.last_sequence):
                return
        log = await self._stored_log(turn.tenant, turn.id)
        interrupted = end_interrupted(turn.id, turn.response, log, self._clock(), code=WORKER_LOST)
        self.log(turn.id, interrupted.events)
        await self.close(turn.id, interrupted.end)

    async def aclose(self) -> list[str]:
        await self._peers.aclose()
        return await super().aclose()
