"""Several workers share a store: each answers for every response, and one that dies loses its turns."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from penstock.store.ledger import KeyLimits, TurnFilter
from penstock.store.records import LOCAL, LoggedEvent, Opened, StoredConversation
from penstock.store.shared import SharedStore
from tests.store.builders import closed, event, events, item_of, items, opened, read, recalled
from tests.store.ledger_records import ended, started
from tests.store.workers import NotingHost, for_two_workers, resume_renewing, stop_renewing, until

BACKGROUND = replace(opened("resp_1", "in_1", status="queued"), is_background=True)


async def status_of(store: SharedStore, id: str) -> str:
    stored = await store.get(LOCAL, id)
    return stored.status if stored is not None else ""


# Every worker answers for every response


@for_two_workers
async def test_a_running_turn_is_known_everywhere(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1", "in_1"), patience=30)
    assert await status_of(second, "resp_1") == "in_progress"
    page = await second.input_items(LOCAL, "resp_1")
    assert page is not None
    assert page.items == items("in_1")
    assert await second.get("another tenant", "resp_1") is None
    assert await first.close("resp_1", closed("resp_1", "out_1"), patience=30)
    assert await status_of(second, "resp_1") == "completed"
    assert await item_of(second, LOCAL, "out_1") is not None


@for_two_workers
async def test_a_stream_is_followed_to_its_end(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 3))
    received: list[LoggedEvent] = []

    async def follow() -> None:
        async for each in second.events(LOCAL, "resp_1", 0):
            received.append(each)  # noqa: PERF401 - the test looks at it meanwhile

    following = asyncio.create_task(follow())
    await until(lambda: len(received) == 2)
    first.log("resp_1", events(3, 5))
    await until(lambda: len(received) == 4)
    assert not following.done()
    first.log("resp_1", [event(5)])
    await first.close("resp_1", closed("resp_1"), patience=30)
    await following
    assert received == events(1, 6)


@for_two_workers
async def test_many_clients_follow_many_turns(first: SharedStore, second: SharedStore) -> None:
    ids = [f"resp_{number}" for number in range(20)]
    for id in ids:
        await first.open(opened(id), patience=30)
    readers = [asyncio.create_task(read(second, id)) for id in ids for _ in range(3)]
    for begin in range(0, 30, 3):
        for id in ids:
            first.log(id, events(begin, begin + 3))
        await asyncio.sleep(0.005)
    for id in ids:
        await first.close(id, closed(id), patience=30)
    assert all(log == events(0, 30) for log in await asyncio.gather(*readers))
    assert not second._news._followed


@for_two_workers
async def test_a_follow_up_waits_for_a_turn_of_another_worker(
    first: SharedStore, second: SharedStore
) -> None:
    await first.open(opened("resp_1", "in_1"), patience=30)
    waiting = asyncio.create_task(second.chain(LOCAL, "resp_1"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await first.close("resp_1", closed("resp_1", "out_1"), patience=30)
    chain = await waiting
    assert chain is not None
    assert [(turn.id, turn.status, turn.output) for turn in chain] == [
        ("resp_1", "completed", items("out_1"))
    ]


@for_two_workers
async def test_a_conversation_waits_for_turns_of_other_workers(
    first: SharedStore, second: SharedStore
) -> None:
    await second.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await first.open(opened("resp_1", "in_1", conversation="conv_1"), patience=30)
    waiting = asyncio.create_task(second.wait_for_turns(LOCAL, "conv_1"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await first.close("resp_1", closed("resp_1", "out_1"), patience=30)
    await waiting
    page = await second.conversation_items(LOCAL, "conv_1", newest_first=False)
    assert page is not None
    assert page.items == items("in_1", "out_1")


@for_two_workers
async def test_a_running_turn_of_another_worker_is_not_deleted(
    first: SharedStore, second: SharedStore
) -> None:
    await first.open(opened("resp_1"), patience=30)
    assert not await second.delete(LOCAL, "resp_1")
    await first.close("resp_1", closed("resp_1"), patience=30)
    assert await second.delete(LOCAL, "resp_1")
    assert await first.get(LOCAL, "resp_1") is None


@for_two_workers
async def test_what_is_remembered_is_shared(first: SharedStore, second: SharedStore) -> None:
    await first.open(replace(opened("resp_1"), memory={"key": b"data"}), patience=30)
    assert await recalled(second, LOCAL, "key") == b"data"
    assert await recalled(second, "another tenant", "key") is None


# Cancelling


@for_two_workers
async def test_a_turn_is_cancelled_by_its_own_worker(first: SharedStore, second: SharedStore) -> None:
    host, other = NotingHost(), NotingHost()
    first.attach(host)
    second.attach(other)
    await first.open(opened("resp_1"), patience=30)
    assert await second.cancel(LOCAL, "resp_1")
    await until(lambda: "resp_1" in host.cancelled)
    assert not other.cancelled
    await first.close("resp_1", closed("resp_1"), patience=30)
    assert not await second.cancel(LOCAL, "resp_1"), "it has ended"
    assert not await second.cancel("another tenant", "resp_1")


# Dead workers


@for_two_workers
async def test_a_turn_of_a_dead_worker_ends_as_failed(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1", "in_1"), patience=30)
    first.log("resp_1", events(0, 3))
    await first.settle("resp_1")
    reader = asyncio.create_task(read(second, "resp_1"))
    await stop_renewing(first)
    log = await reader
    assert log[:3] == events(0, 3)
    assert [each.sequence for each in log] == list(range(len(log)))
    last = msgspec.json.decode(log[-1].data)
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "worker_lost"
    stored = await second.get(LOCAL, "resp_1")
    assert stored is not None
    assert stored.status == "failed"
    assert b'"worker_lost"' in stored.response


@for_two_workers
async def test_a_worker_that_was_taken_for_dead_changes_nothing_any_more(
    first: SharedStore, second: SharedStore
) -> None:
    host = NotingHost()
    first.attach(host)
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 3))
    await first.settle("resp_1")
    await stop_renewing(first)
    await until(lambda: status_is(second, "resp_1", "failed"))
    before = await read(second, "resp_1")
    first.log("resp_1", events(3, 9))
    assert not await first.close("resp_1", closed("resp_1", "out_1"), patience=30)
    assert host.lost == ["resp_1"]
    assert await read(second, "resp_1") == before
    assert await status_of(second, "resp_1") == "failed"
    assert await status_of(first, "resp_1") == "failed"
    assert await item_of(second, LOCAL, "out_1") is None


async def status_is(store: SharedStore, id: str, status: str) -> bool:
    return await status_of(store, id) == status


@for_two_workers
async def test_an_idle_turn_learns_that_it_was_taken_over(first: SharedStore, second: SharedStore) -> None:
    host = NotingHost()
    first.attach(host)
    await first.open(opened("resp_1"), patience=30)
    await stop_renewing(first)
    await until(lambda: status_is(second, "resp_1", "failed"))
    await resume_renewing(first)
    await until(lambda: "resp_1" in host.lost)


@for_two_workers
async def test_background_work_that_had_not_started_is_started_by_another_worker(
    first: SharedStore, second: SharedStore
) -> None:
    host = NotingHost()
    second.attach(host)
    await first.open(BACKGROUND, patience=30)
    await stop_renewing(first)
    await until(lambda: bool(host.started))
    [turn] = host.started
    assert (turn.id, turn.input, turn.is_background) == ("resp_1", items("in_1"), True)
    assert await second.start("resp_1")
    assert not await first.start("resp_1"), "it belongs to the second worker now"
    second.log("resp_1", events(0, 2))
    assert await second.close("resp_1", closed("resp_1", "out_1"), patience=30)
    assert await status_of(second, "resp_1") == "completed"


@for_two_workers
async def test_background_work_that_is_handed_over_is_started_by_another_worker_at_once(
    first: SharedStore, second: SharedStore
) -> None:
    hosts = {first: NotingHost(is_draining=True), second: NotingHost()}
    for store, host in hosts.items():
        store.attach(host)
    await first.open(BACKGROUND, patience=30)
    reader = asyncio.create_task(read(first, "resp_1"))
    assert await first.hand_over("resp_1")
    first.log("resp_1", [event(0)])  # is ignored
    await until(lambda: bool(hosts[second].started))
    assert not await first.start("resp_1")
    assert await second.start("resp_1")
    second.log("resp_1", events(0, 2))
    assert await second.close("resp_1", closed("resp_1", "out_1"), patience=30)
    assert await reader == events(0, 2), "a reader moves from one worker to the other"
    assert await status_of(first, "resp_1") == "completed"
    assert not hosts[first].started


@for_two_workers
async def test_a_worker_that_stops_ends_what_had_started_and_leaves_the_rest(
    first: SharedStore, second: SharedStore
) -> None:
    host = NotingHost(is_draining=True)
    second.attach(host)
    await first.open(BACKGROUND, patience=30)
    await first.open(opened("resp_2"), patience=30)
    await stop_renewing(first)
    await until(lambda: status_is(second, "resp_2", "failed"))
    assert await status_of(second, "resp_1") == "queued"
    assert not host.started
    host.is_draining = False
    await until(lambda: bool(host.started))
    assert [turn.id for turn in host.started] == ["resp_1"]


@for_two_workers
async def test_work_that_was_taken_over_by_a_worker_that_stops_meanwhile_is_left_to_another(
    first: SharedStore, second: SharedStore
) -> None:
    class StoppingHost(NotingHost):
        async def start(self, turn: Opened, last_sequence: int) -> bool:
            await super().start(turn, last_sequence)
            self.is_draining = True
            return False

    host = StoppingHost()
    second.attach(host)
    await first.open(BACKGROUND, patience=30)
    await stop_renewing(first)
    await until(lambda: bool(host.started))
    await until(lambda: "resp_1" not in second._turns)
    await resume_renewing(first)
    first.attach(other := NotingHost())
    await until(lambda: bool(other.started))
    assert [turn.id for turn in other.started] == ["resp_1"]


@for_two_workers
async def test_background_work_that_had_started_is_never_started_again(
    first: SharedStore, second: SharedStore
) -> None:
    host = NotingHost()
    second.attach(host)
    await first.open(BACKGROUND, patience=30)
    assert await first.start("resp_1")
    await stop_renewing(first)
    await until(lambda: status_is(second, "resp_1", "failed"))
    assert not host.started


@for_two_workers
async def test_background_work_that_nobody_can_start_ends_as_failed(
    first: SharedStore, second: SharedStore
) -> None:
    second.attach(NotingHost(can_start=False))
    await first.open(BACKGROUND, patience=30)
    await stop_renewing(first)
    await until(lambda: status_is(second, "resp_1", "failed"))


# The ledger


@for_two_workers
async def test_workers_share_the_limits_of_a_key(first: SharedStore, second: SharedStore) -> None:
    limits = KeyLimits(concurrent_turns=5)
    admissions = [
        worker.admit(started(f"resp_{number}"), limits) for number, worker in enumerate((first, second) * 10)
    ]
    exceeded = await asyncio.gather(*admissions)
    assert sum(each is None for each in exceeded) == 5


@for_two_workers
async def test_the_records_of_a_dead_worker_are_settled(first: SharedStore, second: SharedStore) -> None:
    limits = KeyLimits(concurrent_turns=1)
    assert await first.admit(started("resp_1"), limits) is None
    assert await second.admit(started("resp_2"), limits) is not None
    await stop_renewing(first)

    async def is_settled() -> bool:
        [record] = (await second.turns(TurnFilter())).turns
        return (record.outcome, record.code) == ("failed", "worker_lost")

    await until(is_settled)
    assert await second.admit(started("resp_2"), limits) is None
    second.settle_turn(ended(started("resp_2")))
    assert len((await first.turns(TurnFilter())).turns) == 2


@for_two_workers
async def test_records_of_living_workers_are_not_settled(first: SharedStore, second: SharedStore) -> None:
    await first.admit(started("resp_1"))
    await first.turns(TurnFilter())
    await stop_renewing(second)
    await asyncio.sleep(0.6)  # the lease of the second worker expires, and is noticed
    [record] = (await first.turns(TurnFilter())).turns
    assert record.outcome == "running"


# Pruning


@for_two_workers
async def test_time_passes_once_for_all_workers(first: SharedStore, second: SharedStore) -> None:
    assert await first.advance_time(every=60) is not None
    assert [await each.advance_time(every=60) for each in (first, second)] == [None, None]


@for_two_workers
async def test_of_workers_that_look_at_once_one_prunes(first: SharedStore, second: SharedStore) -> None:
    found = await asyncio.gather(*(each.advance_time(every=60) for each in (first, second) * 4))
    assert len([now for now in found if now is not None]) == 1
