"""Writing parts of turns: fencing, and what may be repeated."""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from penstock.store.batch_writer import Outcome
from penstock.store.postgres import changes, queries, workers
from penstock.store.postgres.connections import DatabasePool
from penstock.store.postgres.statements import Writing, day_of, write_parts
from penstock.store.records import LOCAL, Closed, LoggedEvent, Opened, StoredConversation, Trace
from penstock.store.turn_buffer import UnwrittenPart
from tests.store.builders import closed, event, events, opened, trace
from tests.store.postgres.databases import connection_to, on_postgres, pool_of, rows

TODAY = day_of(1_800_000_000.0)


def part(
    turn: Opened,
    token: str = "token",
    *,
    is_new: bool = False,
    log: list[LoggedEvent] | None = None,
    traces: list[Trace] | None = None,
    end: Closed | None = None,
) -> UnwrittenPart:
    return UnwrittenPart(
        turn=turn,
        token=token,
        is_new=is_new,
        events=log or [],
        traces=traces or [],
        reasoning_memory={"key": b"data"},
        dropped=0,
        end=end,
        ended_at=1_000.0,
        size=0,
    )


async def write(pool: DatabasePool, *writings: Writing, worker: str = "w1") -> list[Outcome]:
    await pool.transact(partial(write_parts, writings=writings, worker=worker, day=TODAY))
    return [each.outcome for each in writings]


async def everything(url: str) -> list[object]:
    """Return all rows of a turn's tables, without what a retry may change."""
    tables = ("responses", "running", "segments", "items", "memories", "conversation_items")
    return [await rows(url, f"SELECT * FROM penstock.{table} ORDER BY 1, 2, 3, 4") for table in tables]


TURN = opened("resp_1", "in_1", "in_2")


@on_postgres
async def test_a_turn_is_written_in_parts(url: str) -> None:
    async with pool_of(url) as pool:
        parts = [
            Writing(part(TURN, is_new=True, log=events(0, 3)), 0),
            Writing(part(TURN, log=events(3, 5), traces=[trace(1), trace(2)]), 0),
            Writing(part(TURN, log=[event(5)], traces=[trace(3)], end=closed("resp_1", "out_1")), 2),
        ]
        for each in parts:
            assert await write(pool, each) == [Outcome.WRITTEN]
        assert await pool.run(partial(queries.events, tenant=LOCAL, id="resp_1", after=-1)) == events(0, 6)
        traces = await pool.run(partial(queries.traces, tenant=LOCAL, id="resp_1"))
        assert traces == [trace(1), trace(2), trace(3)]
    assert await rows(url, "SELECT count(*) FROM penstock.running") == [(0,)]


@on_postgres
async def test_what_is_written_under_another_token_changes_nothing(url: str) -> None:
    async with pool_of(url) as pool:
        await write(pool, Writing(part(TURN, is_new=True, log=events(0, 3)), 0))
        before = await everything(url)
        stale = [
            part(TURN, "stale", log=events(3, 5), traces=[trace(1)]),
            part(TURN, "stale", log=events(3, 5), end=closed("resp_1", "out_1")),
        ]
        for each in stale:
            assert await write(pool, Writing(each, 0)) == [Outcome.TAKEN_OVER]
        assert await everything(url) == before


@on_postgres
async def test_a_turn_that_was_taken_over_does_not_affect_the_others_of_a_batch(url: str) -> None:
    other = opened("resp_2")
    async with pool_of(url) as pool:
        await write(pool, *(Writing(part(turn, is_new=True), 0) for turn in (TURN, other)))
        outcomes = await write(
            pool,
            Writing(part(TURN, "stale", log=events(0, 2)), 0),
            Writing(part(other, log=events(0, 2)), 0),
            Writing(part(opened("resp_3"), is_new=True, end=closed("resp_3")), 0),
        )
        assert outcomes == [Outcome.TAKEN_OVER, Outcome.WRITTEN, Outcome.WRITTEN]
        assert await pool.run(partial(queries.events, tenant=LOCAL, id="resp_1", after=-1)) == []
        assert await pool.run(partial(queries.events, tenant=LOCAL, id="resp_2", after=-1)) == events(0, 2)


@on_postgres
async def test_a_turn_that_has_ended_is_not_written_under_another_token(url: str) -> None:
    async with pool_of(url) as pool:
        await write(pool, Writing(part(TURN, is_new=True), 0))
        assert await write(pool, Writing(part(TURN, end=closed("resp_1")), 0)) == [Outcome.WRITTEN]
        before = await everything(url)
        for late in (part(TURN, "stale", end=closed("resp_1", "out_9")), part(TURN, log=events(0, 2))):
            assert await write(pool, Writing(late, 0)) == [Outcome.TAKEN_OVER]
        assert await everything(url) == before


@on_postgres
async def test_an_id_of_another_turn_is_refused(url: str) -> None:
    async with pool_of(url) as pool:
        await write(pool, Writing(part(TURN, is_new=True, log=events(0, 3)), 0))
        before = await everything(url)
        again = part(TURN, "other", is_new=True, log=events(0, 9), end=closed("resp_1"))
        assert await write(pool, Writing(again, 0)) == [Outcome.REFUSED]
        assert await everything(url) == before
        elsewhere = replace(TURN, tenant="other")
        assert await write(pool, Writing(part(elsewhere, "other", is_new=True), 0)) == [Outcome.WRITTEN]


@on_postgres
async def test_repeating_a_part_of_unknown_outcome_changes_nothing(url: str) -> None:
    async with pool_of(url) as pool:
        await pool.transact(
            partial(
                changes.create_conversation,
                tenant=LOCAL,
                conversation=StoredConversation("conv_1", 1, b"{}"),
                now=1.0,
            )
        )
        turn = replace(TURN, conversation_id="conv_1")
        parts = [
            (part(turn, is_new=True, log=events(0, 3), traces=[trace(1)]), 0),
            (part(turn, log=events(3, 6), traces=[trace(2), trace(3)]), 1),
            (part(turn, log=events(6, 7), end=closed("resp_1", "out_1")), 3),
        ]
        for each, first_trace in parts:
            assert await write(pool, Writing(each, first_trace)) == [Outcome.WRITTEN]
            before = await everything(url)
            again = Writing(each, first_trace, is_uncertain=True)
            assert await write(pool, again) == [Outcome.WRITTEN]
            assert await everything(url) == before


@on_postgres
async def test_a_repeated_part_may_have_grown(url: str) -> None:
    """The first attempt was committed, but its answer was lost, and more has been logged since."""
    async with pool_of(url) as pool:
        await write(pool, Writing(part(TURN, is_new=True, log=events(0, 3), traces=[trace(1)]), 0))
        grown = part(
            TURN,
            is_new=True,
            log=events(0, 6),
            traces=[trace(1), trace(2)],
            end=closed("resp_1", "out_1"),
        )
        # The row that is there already shows that the outcome of an earlier attempt was unknown.
        assert await write(pool, Writing(grown, 0)) == [Outcome.WRITTEN]
        assert await pool.run(partial(queries.events, tenant=LOCAL, id="resp_1", after=-1)) == events(0, 6)
        traces = await pool.run(partial(queries.traces, tenant=LOCAL, id="resp_1"))
        assert traces == [trace(1), trace(2)]
    assert await rows(url, "SELECT sum(count) FROM penstock.segments WHERE NOT is_trace") == [(6,)]
    assert await rows(url, "SELECT count(*) FROM penstock.items") == [(3,)]


@on_postgres
async def test_a_turn_is_not_taken_over_while_it_is_written(url: str) -> None:
    async with pool_of(url) as pool, connection_to(url) as writer, connection_to(url) as other:
        await write(pool, Writing(part(TURN, is_new=True), 0))
        await writer.execute("BEGIN")
        now = Writing(part(TURN, log=events(0, 3)), 0)
        await write_parts(writer, [now], "w1", TODAY)
        assert now.outcome is Outcome.WRITTEN
        assert await workers.claim_orphans(other, "w2", [], 9) == []
        await writer.execute("COMMIT")
        [orphan] = await workers.claim_orphans(other, "w2", [], 9)
        assert orphan.last_sequence == 2
        assert await write(pool, Writing(part(TURN, log=events(3, 5)), 0)) == [Outcome.TAKEN_OVER]


@on_postgres
async def test_a_turn_is_not_written_while_it_is_taken_over(url: str) -> None:
    for number, end in enumerate((None, closed("resp_1"))):
        turn = opened(f"resp_{number}")
        async with pool_of(url) as pool, connection_to(url) as other:
            await write(pool, Writing(part(turn, is_new=True), 0))
            await other.execute("BEGIN")
            [orphan] = await workers.claim_orphans(other, "w2", [], 9)
            late = Writing(part(turn, log=events(0, 3), end=end), 0)
            writing = asyncio.create_task(write(pool, late))
            await asyncio.sleep(0.05)
            assert not writing.done()
            await other.execute("COMMIT")
            assert await writing == [Outcome.TAKEN_OVER]
            again = Writing(part(turn, orphan.token, log=events(0, 1), end=closed(turn.id)), 0)
            assert await write(pool, again) == [Outcome.WRITTEN]


@on_postgres
async def test_the_size_of_a_response_includes_everything_of_it(url: str) -> None:
    big = LoggedEvent(0, 1.0, bytes(range(256)) * 40)
    async with pool_of(url) as pool:
        await write(pool, Writing(part(TURN, is_new=True, log=[big]), 0))
        await write(pool, Writing(part(TURN, end=closed("resp_1", "out_1")), 0))
        stored = "SELECT sum(octet_length(data))::bigint FROM penstock.%s"
        [(segments,)] = await rows(url, stored % "segments")
        [(items,)] = await rows(url, stored % "items")
        documents = len(TURN.request) + len(closed("resp_1").response) + len(closed("resp_1").verdict)
        [(size,)] = await rows(url, "SELECT size FROM penstock.responses")
        assert size - (segments + items + documents) in range(400, 1_000)


def test_a_time_that_is_no_date_belongs_to_some_day() -> None:
    assert str(day_of(1_795_003_200.0)) == "2026-11-18"
    assert str(day_of(1e300)) == "1970-01-01"
    assert str(day_of(float("nan"))) == "1970-01-01"
