"""The SQL for writing. A transaction writes parts of many turns with a few statements: each takes arrays.

Every part of a running turn is written under its claim token. The row in `running` is locked until the
transaction ends, so that no other worker can take the turn over in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

from msgspec import Struct

from penstock.store.batch_writer import Outcome
from penstock.store.packing import in_rows, pack_document, pack_events, pack_traces
from penstock.store.postgres.changes import columns_of, insert_items
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.text import indexable, storable, storable_or_none
from penstock.store.records import LoggedEvent, StoredItem, Trace
from penstock.store.turn_buffer import UnwrittenPart

OUTPUT = 1 << 23
"""The position of the first output item."""

_BEGIN = """
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bool[], $8::text[],
        $9::text[], $10::bytea[], $11::bytea[], $12::bool[]
    ) WITH ORDINALITY AS given (
        tenant, id, created_at, status, previous_id, conversation_id, is_background, accent,
        token, request, response, is_claimed, place
    )
), written AS (
    INSERT INTO penstock.responses (
        tenant, id, created_at, day, status, previous_id, conversation_id, is_background, accent, token,
        request, response
    )
    SELECT
        tenant, id, created_at, $13, status, previous_id, conversation_id, is_background, accent, token,
        request, response
    FROM given ORDER BY place
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING tenant, id, number
), claimed AS (
    INSERT INTO penstock.running (tenant, id, response, day, conversation_id, worker, token, is_started)
    SELECT tenant, id, number, $13, conversation_id, $14, token, NOT is_background
    FROM given JOIN written USING (tenant, id) WHERE is_claimed
)
SELECT tenant, id, number FROM written
"""
"""A response gets a greater number than those before it, also within a batch: `place`."""

_EXISTING = """
SELECT tenant, id, number, day, token, ended_at IS NOT NULL AS has_ended
FROM penstock.responses JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
"""

# This lock conflicts with a worker that claims the turn, but not with one that asks to cancel it.
_HOLD = """
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bool[]) AS given (tenant, id, token, is_end)
), ended AS (
    DELETE FROM penstock.running USING given
    WHERE running.tenant = given.tenant AND running.id = given.id AND running.token = given.token AND is_end
    RETURNING running.tenant, running.id, response, day
), held AS (
    SELECT running.tenant, running.id, response, day
    FROM penstock.running JOIN given USING (tenant, id)
    WHERE running.token = given.token AND NOT is_end
    FOR KEY SHARE OF running
)
SELECT tenant, id, response, day FROM ended UNION ALL SELECT tenant, id, response, day FROM held
"""

_LAST = """
SELECT response, is_trace, max(last) AS last
FROM penstock.segments JOIN unnest($1::date[], $2::bigint[]) AS given (day, response) USING (day, response)
GROUP BY response, is_trace
"""

_ADD = """
WITH segments AS (
    INSERT INTO penstock.segments (day, tenant, response, is_trace, last, count, data)
    SELECT * FROM unnest(
        $1::date[], $2::text[], $3::bigint[], $4::bool[], $5::bigint[], $6::integer[], $7::bytea[]
    )
), items AS (
    INSERT INTO penstock.items (response, position, tenant, id, data)
    SELECT * FROM unnest($8::bigint[], $9::integer[], $10::text[], $11::text[], $12::bytea[])
)
INSERT INTO penstock.memories (tenant, key, response, data)
SELECT * FROM unnest($13::text[], $14::text[], $15::bigint[], $16::bytea[])
ON CONFLICT (tenant, key) DO UPDATE SET response = excluded.response, data = excluded.data
"""

_END = """
UPDATE penstock.responses SET
    status = given.status, response = given.response, verdict = given.verdict, ended_at = given.ended_at,
    dropped = given.dropped, token = given.token,
    size = 400 + octet_length(request) + octet_length(given.response) + octet_length(given.verdict) + (
        SELECT coalesce(sum(octet_length(data) + 100), 0) FROM penstock.segments
        WHERE segments.day = responses.day AND segments.response = responses.number
    ) + (
        SELECT coalesce(sum(octet_length(data) + 100), 0) FROM penstock.items
        WHERE items.response = responses.number
    )
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[], $6::double precision[], $7::bigint[],
    $8::text[]
) AS given (tenant, id, status, response, verdict, ended_at, dropped, token)
WHERE responses.tenant = given.tenant AND responses.id = given.id
"""

_CONVERSATIONS = """
SELECT number, tenant, id FROM penstock.conversations
JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
ORDER BY tenant, id FOR UPDATE OF conversations
"""


class PackedPart(Struct, frozen=True):
    """What a part contains, as it is stored."""

    begin: bytes
    input: list[tuple[str, bytes]]
    end: bytes
    output: list[tuple[str, bytes]]
    log: list[tuple[bool, int, int, bytes]]
    """Rows of segments: whether they are traces, the last event or trace, the number, and the data."""


class Writing(Struct):
    """A part that a transaction writes, and what is known of its turn."""

    part: UnwrittenPart
    first_trace: int
    """The position of its first trace among those of the turn."""
    is_uncertain: bool = False
    """Whether some of it may be written already: the connection broke while it was written."""
    packed: PackedPart | None = None
    number: int = 0
    day: date = date.min
    is_inserted: bool = False
    """Whether this transaction inserted the row of the response."""
    outcome: Outcome = Outcome.PENDING

    @property
    def key(self) -> tuple[str, str]:
        return storable(self.part.turn.tenant), storable(self.part.turn.id)

    def pack(self) -> PackedPart:
        """Pack the part, once. This is most of the work; it may be done in a thread before the rest."""
        if self.packed is None:
            part, end = self.part, self.part.end
            self.packed = PackedPart(
                begin=pack_document(part.turn.response) if part.is_new else b"",
                input=_pack_items(part.turn.input) if part.is_new else [],
                end=pack_document(end.response) if end is not None else b"",
                output=_pack_items(end.output) if end is not None else [],
                log=[*_pack_log(self, None, None)],
            )
        return self.packed


def day_of(time: float) -> date:
    """Return the day of UTC that contains a time."""
    try:
        return datetime.fromtimestamp(time, UTC).date()
    except (ValueError, OverflowError, OSError):
        return date(1970, 1, 1)


async def write_parts(
    connection: DatabaseConnection,
    writings: Sequence[Writing],
    worker: str,
    day: date,
    *,
    adds_to_conversations: bool = True,
) -> None:
    """Write parts of turns of this worker, and note what became of each. An outcome is final only when the
    transaction is committed. `day` is that of new turns."""
    for writing in writings:
        writing.outcome, writing.number, writing.is_inserted = Outcome.PENDING, 0, False
    await _begin(connection, [each for each in writings if each.part.is_new], worker, day)
    await _hold(connection, [each for each in writings if not each.number and _is_pending(each)])
    held = [each for each in writings if _is_pending(each)]
    if not held:
        return
    stored = await _last_stored(connection, [each for each in held if each.is_uncertain])
    await _add(connection, held, stored)
    ended = [each for each in held if each.part.end is not None]
    if ended:
        await _end(connection, ended)
        if adds_to_conversations:
            await _add_to_conversations(connection, ended)
    for writing in held:
        writing.outcome = Outcome.WRITTEN


def _is_pending(writing: Writing) -> bool:
    return writing.outcome is Outcome.PENDING


async def _begin(connection: DatabaseConnection, writings: Sequence[Writing], worker: str, day: date) -> None:
    """Insert the rows of new turns. A row may be there already, if the connection broke when it was written
    before; with another token, another turn has the same id."""
    if not writings:
        return
    turns = [each.part.turn for each in writings]
    columns = [
        [storable(turn.tenant) for turn in turns],
        [storable(turn.id) for turn in turns],
        [turn.created_at for turn in turns],
        [storable(turn.status) for turn in turns],
        [storable_or_none(turn.previous_id) for turn in turns],
        [storable_or_none(turn.conversation_id) for turn in turns],
        [turn.is_background for turn in turns],
        [storable(turn.accent) for turn in turns],
        [each.part.token for each in writings],
        [turn.request for turn in turns],
        [each.pack().begin for each in writings],
        [each.part.end is None for each in writings],
    ]
    rows = await connection.fetch(_BEGIN, *columns, day, worker)
    numbers = {(tenant, id): number for tenant, id, number in rows}
    for writing in writings:
        writing.number, writing.day = numbers.get(writing.key, 0), day
        writing.is_inserted = bool(writing.number)
    existing = [each for each in writings if not each.number]
    if existing:
        await _find_existing(connection, existing)


async def _find_existing(connection: DatabaseConnection, writings: Sequence[Writing]) -> None:
    keys = [each.key for each in writings]
    rows = await connection.fetch(_EXISTING, *columns_of(keys, 2))
    found = {(row["tenant"], row["id"]): row for row in rows}
    for writing in writings:
        row = found.get(writing.key)
        if row is None or row["token"] != writing.part.token:
            writing.outcome = Outcome.REFUSED
        elif row["has_ended"]:
            writing.outcome = Outcome.WRITTEN
        else:
            writing.is_uncertain = True


async def _hold(connection: DatabaseConnection, writings: Sequence[Writing]) -> None:
    """Lock the rows of running turns, or delete them if the turns end now. Without its row, a turn was taken
    over, unless it has ended under our token: then the connection broke when that was written."""
    if not writings:
        return
    given = [(*each.key, each.part.token, each.part.end is not None) for each in writings]
    rows = await connection.fetch(_HOLD, *columns_of(given, 4))
    found = {(tenant, id): (number, day) for tenant, id, number, day in rows}
    for writing in writings:
        if writing.key in found:
            writing.number, writing.day = found[writing.key]
        else:
            writing.outcome = Outcome.TAKEN_OVER
    missing = [each for each in writings if each.outcome is Outcome.TAKEN_OVER]
    if not missing:
        return
    ended = {
        (row["tenant"], row["id"]): row["token"]
        for row in await connection.fetch(_EXISTING, *columns_of([each.key for each in missing], 2))
        if row["has_ended"]
    }
    for writing in missing:
        if writing.part.end is not None and ended.get(writing.key) == writing.part.token:
            writing.outcome = Outcome.WRITTEN


Stored = Mapping[tuple[int, bool], int]
"""The last event and the last trace that are stored, by the response and whether it is a trace."""


async def _last_stored(connection: DatabaseConnection, writings: Sequence[Writing]) -> Stored:
    if not writings:
        return {}
    rows = await connection.fetch(_LAST, [each.day for each in writings], [each.number for each in writings])
    return {(row["response"], row["is_trace"]): row["last"] for row in rows}


async def _add(connection: DatabaseConnection, writings: Sequence[Writing], stored: Stored) -> None:
    """Insert segments, items and what is remembered."""
    segments: list[tuple[date, str, int, bool, int, int, bytes]] = []
    items: list[tuple[int, int, str, str, bytes]] = []
    memories: dict[tuple[str, str], tuple[int, bytes]] = {}
    for writing in writings:
        part, number = writing.part, writing.number
        tenant = storable(part.turn.tenant)
        packed = writing.pack()
        log: Iterable[tuple[bool, int, int, bytes]] = packed.log
        if writing.is_uncertain:
            log = _pack_log(writing, stored.get((number, False)), stored.get((number, True)))
        segments += ((writing.day, tenant, number, *row) for row in log)
        if writing.is_inserted:
            items += ((number, place, tenant, *row) for place, row in enumerate(packed.input))
        items += ((number, place, tenant, *row) for place, row in enumerate(packed.output, OUTPUT))
        for key, data in part.reasoning_memory.items():
            memories[tenant, indexable(key)] = number, data
    if segments or items or memories:
        remembered = [(*key, *value) for key, value in memories.items()]
        await connection.execute(
            _ADD, *columns_of(segments, 7), *columns_of(items, 5), *columns_of(remembered, 4)
        )


def _pack_log(
    writing: Writing, last_event: int | None, last_trace: int | None
) -> Iterator[tuple[bool, int, int, bytes]]:
    """Yield the rows of the log of a part, without what is stored already."""
    events: Sequence[LoggedEvent] = writing.part.events
    traces: Sequence[Trace] = writing.part.traces
    first = writing.first_trace
    if last_event is not None:
        events = [event for event in events if event.sequence > last_event]
    if last_trace is not None:
        traces = traces[max(last_trace + 1 - first, 0) :]
        first = max(first, last_trace + 1)
    for row in in_rows(events):
        yield False, row[-1].sequence, len(row), pack_events(row)
    if traces:
        yield True, first + len(traces) - 1, len(traces), pack_traces(traces)


def _pack_items(items: Iterable[StoredItem]) -> list[tuple[str, bytes]]:
    return [(storable(item.id), pack_document(item.data)) for item in items]


async def _end(connection: DatabaseConnection, writings: Sequence[Writing]) -> None:
    rows = []
    for each in writings:
        part, end = each.part, each.part.end
        assert end is not None
        values = (storable(end.status), each.pack().end, end.verdict, part.ended_at)
        rows.append((*each.key, *values, part.dropped, part.token))
    await connection.execute(_END, *columns_of(rows, 8))


async def _add_to_conversations(connection: DatabaseConnection, writings: Sequence[Writing]) -> None:
    """Add the items of turns that end to their conversations, as far as these still exist."""
    ended = [each for each in writings if each.part.turn.conversation_id is not None]
    if not ended:
        return
    keys = [(each.key[0], storable(each.part.turn.conversation_id or "")) for each in ended]
    # They are locked in the same order by every worker.
    rows = await connection.fetch(_CONVERSATIONS, *columns_of(sorted({*keys}), 2))
    numbers = {(tenant, id): number for number, tenant, id in rows}
    for key, each in zip(keys, ended, strict=True):
        end = each.part.end
        if key in numbers and end is not None:
            items = (*each.part.turn.input, *end.output)
            await insert_items(connection, key[0], numbers[key], items, each.part.ended_at)
