"""Moves everything of another store into this one.

What is there already is left alone, so an import that was interrupted can be repeated. Turns keep their order
and their times; those that were running when their process died end as failed, as when a gateway opens their
store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import groupby
from typing import Protocol, TypeVar

from penstock.store.contract import StoreArchive
from penstock.store.interrupted import end_interrupted
from penstock.store.ledger import INTERRUPTED, TurnFilter, TurnRecord
from penstock.store.ledger_tables import interrupted
from penstock.store.postgres import changes, ledger, pruning, workers
from penstock.store.postgres.address import address_of
from penstock.store.postgres.archive import LoopThread
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool, Job
from penstock.store.postgres.schema import migrate_database
from penstock.store.postgres.statements import Writing, day_of, write_parts
from penstock.store.postgres.text import storable
from penstock.store.records import (
    RUNNING,
    ArchivedConversation,
    Closed,
    Imported,
    Opened,
    StoredResponse,
)
from penstock.store.turn_buffer import UnwrittenPart

T = TypeVar("T")

_AT_ONCE = 100
"""Rows in one transaction."""
_BYTES_AT_ONCE = 16 * 1024 * 1024
_TURNS_AT_ONCE = 500
_MOST_PARTITIONS = 400
"""Days of logs that get partitions of their own. Older ones are in the default partition."""
_SECONDS = 120.0
_TOKEN = "import"

_KNOWN = """
SELECT tenant, id
FROM penstock.%s JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
"""
_LOGS_SINCE = "SELECT logs_since FROM penstock.state WHERE isfinite(logs_since)"
_RAISE_DAY = """
INSERT INTO penstock.tenant_days AS days (tenant, day, tokens, cost)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::double precision[])
ON CONFLICT (tenant, day) DO UPDATE
SET tokens = greatest(days.tokens, excluded.tokens), cost = greatest(days.cost, excluded.cost)
"""


class ImportSource(StoreArchive, Protocol):
    """An archive that also returns what no operator's tool shows."""

    def ended_at(self, tenant: str, id: str) -> float | None: ...

    def memories(self, tenant: str, id: str) -> dict[str, bytes]: ...

    def tenant_days(self) -> list[tuple[str, int, int, float]]: ...

    def store_time(self, now: float) -> float: ...


def import_store(
    source: ImportSource, url: str, progress: Callable[[Imported], None] = lambda _: None
) -> Imported:
    """Move an open archive into a database; raise `StoreError` if that is not possible."""
    with _transactions_on(url) as transact:
        return _Importer(source, transact, progress).run()


def add_secret_to(url: str, name: str, secret: bytes) -> bool:
    """Add a secret to a database; return whether it is the one in use. Raise `StoreError` if that is not
    possible."""
    with _transactions_on(url) as transact:
        return transact(partial(workers.add_secret, name=name, secret=secret))


@contextmanager
def _transactions_on(url: str) -> Iterator[_Transact]:
    """Yield a function that runs a job in a transaction; the tables are created first."""
    address = address_of(url)
    thread = LoopThread()
    pool = DatabasePool(address)

    def transact(job: Job[T]) -> T:
        return thread.run(pool.transact(job, seconds=_SECONDS))

    try:
        thread.run(migrate_database(address))
        yield transact
    finally:
        thread.run(pool.aclose())
        thread.close()


class _Transact(Protocol):
    def __call__(self, job: Job[T]) -> T: ...


class _Importer:
    def __init__(
        self,
        source: ImportSource,
        transact: _Transact,
        progress: Callable[[Imported], None],
    ) -> None:
        self._source, self._transact, self._progress = source, transact, progress
        self._imported = Imported()
        self._now = time.time()
        self._days: set[date] = set()
        self._logs_since = date.min

    def run(self) -> Imported:
        self._transact(self._prepare)
        for some in _in_groups(self._source.responses(), _size):
            self._move_responses(some)
        for talks in _in_groups(self._source.conversations(), _size_of_talk):
            known = self._transact(partial(_known, table="conversations", keys=[*map(_key_of_talk, talks)]))
            new = [each for each in talks if _key_of_talk(each) not in known]
            self._transact(partial(_add_conversations, talks=new))
            self._count("conversations", len(new), len(talks))
        self._move_ledger()
        self._transact(partial(self._finish, days=self._source.tenant_days()))
        return self._imported

    async def _prepare(self, connection: DatabaseConnection) -> None:
        self._logs_since = await connection.fetchval(_LOGS_SINCE) or date.min

    async def _finish(self, connection: DatabaseConnection, days: list[tuple[str, int, int, float]]) -> None:
        """Copy what budgets count of turns that the source has deleted; and the store's own time."""
        rows = [(ledger.name_of(tenant), *rest) for tenant, *rest in days]
        await connection.execute(_RAISE_DAY, *changes.columns_of(rows, 4))
        query = "UPDATE penstock.state SET store_time = $1 WHERE store_time IS NULL"
        await connection.execute(query, self._source.store_time(self._now))

    def _count(self, kind: str, new: int, all: int) -> None:
        setattr(self._imported, kind, getattr(self._imported, kind) + new)
        self._imported.known += all - new
        self._progress(self._imported)

    # Responses

    def _move_responses(self, some: Sequence[StoredResponse]) -> None:
        known = self._transact(partial(_known, table="responses", keys=[*map(_key, some)]))
        new = [each for each in some if _key(each) not in known]
        parts = [(self._day_of(part), part) for part in map(self._part, new)]
        for day, group in groupby(parts, key=lambda pair: pair[0]):
            self._add_partition(day)
            writings = [Writing(part, first_trace=0) for _, part in group]
            self._transact(
                partial(write_parts, writings=writings, worker="", day=day, adds_to_conversations=False)
            )
        self._count("responses", len(new), len(some))

    def _part(self, stored: StoredResponse) -> UnwrittenPart:
        """Return everything of a response as if it had begun and ended now."""
        tenant, id, source = stored.tenant, stored.id, self._source
        log, ended_at = source.events(tenant, id), source.ended_at(tenant, id)
        end = Closed(
            status=stored.status,
            response=stored.response,
            output=tuple(source.output(tenant, id)),
            verdict=stored.verdict,
        )
        if stored.status in RUNNING or ended_at is None:
            ended_at = self._now
            recovered = end_interrupted(id, stored.response, log, ended_at)
            end, log = recovered.end, [*log, *recovered.events]
        turn = Opened(
            id=id,
            tenant=tenant,
            created_at=stored.created_at,
            previous_id=stored.previous_id,
            conversation_id=stored.conversation_id,
            request=stored.request,
            input=tuple(source.input(tenant, id)),
            is_background=stored.is_background,
            accent=stored.accent,
        )
        return UnwrittenPart(
            turn=turn,
            token=_TOKEN,
            is_new=True,
            events=log,
            traces=source.traces(tenant, id),
            reasoning_memory=source.memories(tenant, id),
            dropped=stored.dropped,
            end=end,
            ended_at=ended_at,
            size=0,
        )

    def _day_of(self, part: UnwrittenPart) -> date:
        return max(day_of(part.ended_at), self._logs_since)

    def _add_partition(self, day: date) -> None:
        if day not in self._days and len(self._days) < _MOST_PARTITIONS:
            self._days.add(day)
            self._transact(partial(pruning.add_partition, day=day))

    # The ledger

    def _move_ledger(self) -> None:
        after, is_first = "", True
        while after or is_first:
            page = self._source.turns(TurnFilter(), after=after, limit=_TURNS_AT_ONCE)
            records = [self._ended(each) for each in page.turns]
            keys = [(ledger.name_of(each.tenant), storable(each.id)) for each in records]
            known = self._transact(partial(_known, table="turns", keys=keys))
            new = [record for record, key in zip(records, keys, strict=True) if key not in known]
            self._transact(partial(ledger.write_records, records=new, worker=""))
            self._count("turns", len(new), len(records))
            after, is_first = page.next, False

    def _ended(self, record: TurnRecord) -> TurnRecord:
        return record if record.ended_at is not None else interrupted(record, self._now, INTERRUPTED)


def _key(stored: StoredResponse) -> tuple[str, str]:
    return storable(stored.tenant), storable(stored.id)


def _key_of_talk(talk: ArchivedConversation) -> tuple[str, str]:
    return storable(talk.tenant), storable(talk.conversation.id)


def _size(stored: StoredResponse) -> int:
    return len(stored.request) + 2 * len(stored.response)


def _size_of_talk(talk: ArchivedConversation) -> int:
    return sum(len(item.data) for item in talk.items)


def _in_groups(all: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield groups for a transaction each: of a limited number, and about a limited size."""
    some: list[T] = []
    bytes = 0
    for each in all:
        some.append(each)
        bytes += size(each)
        if len(some) >= _AT_ONCE or bytes >= _BYTES_AT_ONCE:
            yield some
            some, bytes = [], 0
    if some:
        yield some


async def _known(
    connection: DatabaseConnection, table: str, keys: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    rows = await connection.fetch(_KNOWN % table, *changes.columns_of(keys, 2))
    return {(tenant, id) for tenant, id in rows}


async def _add_conversations(connection: DatabaseConnection, talks: Sequence[ArchivedConversation]) -> None:
    for talk in talks:
        await changes.create_conversation(connection, talk.tenant, talk.conversation, talk.changed_at)
        await changes.add_items(connection, talk.tenant, talk.conversation.id, talk.items, talk.changed_at)
