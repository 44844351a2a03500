"""A client cannot tell which worker it talks to, and a worker that dies loses its turns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.gateway.api.turn_host import GatewayTurnHost
from penstock.gateway.settings import Limits, Settings
from penstock.gateway.turn.idempotency import fingerprint_of
from penstock.store.ledger import TurnFilter
from penstock.store.records import LOCAL, Opened, StoredItem
from tests.gateway.in_process import SLOW, Caller, call
from tests.gateway.running import judge_stream
from tests.gateway.two_workers import Worker, with_two_workers
from tests.store.workers import FAST, SHARED_KINDS, stop_renewing, until


async def begun(worker: Worker) -> Caller:
    """Return a caller whose stream has begun to show text."""
    caller = Caller(worker.gateway, input=SLOW, stream=True)
    await caller.received(b"output_text.delta")
    return caller


async def cancel(worker: Worker, caller: Caller) -> None:
    await call(worker.gateway, f"/v1/responses/{caller.id}/cancel", data=b"")
    await caller.task


def test_a_stream_is_resumed_at_another_worker(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = Caller(first.gateway, input="Count from 1 to 40.", stream=True)
        await caller.received(b"output_text.delta")
        path = f"/v1/responses/{caller.id}?stream=true&starting_after=3"
        resumed = await call(second.gateway, path, method="GET")
        await caller.task
        expected = caller.events
        received = [
            json.loads(line.removeprefix(b"data: "))
            for line in resumed.body.splitlines()
            if line.startswith(b"data: {")
        ]
        assert received == expected[4:]

    with_two_workers(tmp_path, body)


def test_a_running_response_looks_the_same_at_every_worker(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = await begun(first)

        async def has_text() -> bool:
            shown = await call(second.gateway, f"/v1/responses/{caller.id}", method="GET")
            output = shown.json["output"]
            return shown.json["status"] == "in_progress" and bool(output and output[0]["content"][0]["text"])

        await until(has_text)
        refused = await call(second.gateway, f"/v1/responses/{caller.id}", method="DELETE")
        assert refused.status == 409
        await cancel(first, caller)

    with_two_workers(tmp_path, body)


def test_a_response_is_cancelled_at_another_worker(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = await begun(first)
        cancelled = await call(second.gateway, f"/v1/responses/{caller.id}/cancel", data=b"")
        assert cancelled.json["status"] == "cancelled"
        await caller.task
        assert caller.response["incomplete_details"] == {"reason": "cancelled"}
        assert not first.gateway.running()

    with_two_workers(tmp_path, body)


def test_a_follow_up_at_another_worker_waits_for_the_response(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = Caller(first.gateway, input="Count from 1 to 20.", stream=True)
        await caller.received(b"output_text.delta")
        followed = await call(second.gateway, input="And now?", previous_response_id=caller.id)
        assert followed.status == 200
        assert caller.task.done()
        page = await call(
            second.gateway, f"/v1/responses/{followed.json['id']}/input_items?order=asc", method="GET"
        )
        assert [item["role"] for item in page.json["data"]] == ["user", "assistant", "user"]

    with_two_workers(tmp_path, body)


def test_a_stream_of_a_dead_worker_ends_with_worker_lost(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = await begun(first)
        path = f"/v1/responses/{caller.id}?stream=true"
        resumed = Caller(second.gateway, path, method="GET")
        await stop_renewing(first.store)
        await resumed.task
        last = judge_stream(resumed.body)[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == "worker_lost"
        assert last["response"]["output"][0]["status"] == "incomplete"
        # The worker was not dead after all: its stream ends at once, and the record stays as it is.
        await caller.task
        assert caller.response["error"]["code"] == "worker_lost"
        shown = await call(first.gateway, f"/v1/responses/{caller.id}", method="GET")
        assert shown.json["error"]["code"] == "worker_lost"
        late = await call(first.gateway, f"{path}&starting_after=100000", method="GET")
        assert b"worker_lost" in late.body
        assert late.body.endswith(b"data: [DONE]\n\n")

    with_two_workers(tmp_path, body)


def background_turn(**fields: object) -> Opened:
    request = {"model": "demo", "background": True, **fields}
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi"}],
    }
    response = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
    return Opened(
        id="resp_1",
        created_at=7,
        status="queued",
        request=json.dumps(request).encode(),
        response=json.dumps(response).encode(),
        input=(StoredItem("msg_1", json.dumps(item).encode()),),
        is_background=True,
        accent="openresponses",
    )


async def ended(worker: Worker, id: str) -> dict[str, object]:
    async def is_over() -> bool:
        shown = await call(worker.gateway, f"/v1/responses/{id}", method="GET")
        return shown.json["status"] not in ("queued", "in_progress")

    await until(is_over)
    shown = await call(worker.gateway, f"/v1/responses/{id}", method="GET")
    found: dict[str, object] = shown.json
    return found


def test_accepted_work_of_a_dead_worker_is_done_by_another(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        await first.store.open(background_turn(), patience=30)
        await stop_renewing(first.store)
        response = await ended(second, "resp_1")
        assert (response["status"], response["id"], response["created_at"]) == ("completed", "resp_1", 7)
        assert response["background"] is True
        stream = await call(second.gateway, "/v1/responses/resp_1?stream=true", method="GET")
        types = [each["type"] for each in judge_stream(stream.body)]
        assert types[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert types.count("response.completed") == 1
        [record] = (await second.store.turns(TurnFilter())).turns
        assert (record.id, record.outcome) == ("resp_1", "completed")

    with_two_workers(tmp_path, body)


def let_starts_fail(worker: Worker) -> list[str]:
    """Let the store be unable to record that a background turn starts until the worker stops; return the ids
    of those that are started nevertheless."""
    start, found = worker.store.start, []

    async def fail_first(id: str) -> bool:
        if not worker.gateway.is_draining:
            raise StoreError(StoreError.IO, f"the start of {id} could not be written")
        found.append(id)
        return await start(id)

    worker.store.start = fail_first  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_a_worker_that_stops_leaves_what_it_has_not_started_to_another(tmp_path: Path, kind: str) -> None:
    async def body(first: Worker, second: Worker) -> None:
        started = let_starts_fail(first)
        follower = Caller(first.gateway, input="say exactly: hello", stream=True, background=True)
        await follower.received(b"response.queued")
        queued = await call(first.gateway, input="say exactly: hello", background=True)
        assert queued.json["status"] == "queued"
        await asyncio.wait_for(first.gateway.drain(), 10)  # nothing runs there any more
        assert first.gateway.running() == 0
        assert started == []
        response = await ended(second, queued.json["id"])
        assert (response["status"], response["created_at"]) == ("completed", queued.json["created_at"])
        await follower.task
        types = [each["type"] for each in judge_stream(follower.body)]
        assert types[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert types[-1] == "response.completed"
        records = (await second.store.turns(TurnFilter())).turns
        assert {record.id: record.outcome for record in records} == {
            queued.json["id"]: "completed",
            follower.id: "completed",
        }

    with_two_workers(tmp_path, body, kind=kind)


def test_a_response_that_was_cancelled_before_its_worker_stops_is_left_to_nobody(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        let_starts_fail(first)
        queued = await call(first.gateway, input="Hi", background=True)
        first.gateway.is_draining = True
        cancelled = await call(first.gateway, f"/v1/responses/{queued.json['id']}/cancel", data=b"")
        assert cancelled.json["status"] == "cancelled"
        assert (await ended(second, queued.json["id"]))["status"] == "cancelled"

    with_two_workers(tmp_path, body)


def test_a_worker_that_stops_starts_nothing_that_another_one_has_left(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        first.gateway.is_draining = second.gateway.is_draining = True
        assert not await GatewayTurnHost(second.gateway).start(background_turn(), -1)
        await first.store.open(background_turn(), patience=30)
        await first.store.hand_over("resp_1")
        await asyncio.sleep(10 * FAST.tick)
        shown = await call(second.gateway, "/v1/responses/resp_1", method="GET")
        assert shown.json["status"] == "queued"
        second.gateway.is_draining = False
        assert (await ended(second, "resp_1"))["status"] == "completed"

    with_two_workers(tmp_path, body)


@pytest.mark.parametrize(
    "turn",
    [
        replace(background_turn(), tenant="removed"),
        background_turn(previous_response_id="resp_unknown"),
        replace(background_turn(), request=b'{"model": 7}'),
    ],
    ids=["no key", "no history", "unreadable"],
)
def test_accepted_work_that_cannot_be_done_fails(tmp_path: Path, turn: Opened) -> None:
    async def body(first: Worker, second: Worker) -> None:
        await first.store.open(turn, patience=30)
        await stop_renewing(first.store)

        async def has_failed() -> bool:
            stored = await second.store.get(turn.tenant, "resp_1")
            return stored is not None and stored.status == "failed"

        await until(has_failed)
        stored = await second.store.get(turn.tenant, "resp_1")
        assert stored is not None
        assert b"worker_lost" in stored.response

    with_two_workers(tmp_path, body)


def test_an_idempotency_key_holds_at_every_worker(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        headers = {"idempotency-key": "key-1"}
        data = json.dumps({"model": "demo", "input": "Count from 1 to 20."}).encode()
        callers = [
            Caller(worker.gateway, headers=headers, data=data) for worker in (first, second, first, second)
        ]
        for caller in callers:
            await caller.task
        assert len({caller.json["id"] for caller in callers}) == 1
        assert len((await first.store.turns(TurnFilter())).turns) == 1
        other = await call(second.gateway, headers=headers, input="Something else.")
        assert (other.status, other.error["code"]) == (409, "idempotency_key_reused")

    with_two_workers(tmp_path, body)


def test_an_unstored_response_is_not_made_again_by_another_worker(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        headers = {"idempotency-key": "key-1"}
        data = json.dumps({"model": "demo", "input": "Hi", "store": False}).encode()
        answer = await call(first.gateway, headers=headers, data=data)
        other = await call(second.gateway, headers=headers, data=data)
        assert (other.status, other.error["code"]) == (409, "idempotency_outcome_unknown")
        again = await call(first.gateway, headers=headers, data=data)
        assert again.json["id"] == answer.json["id"], "the worker that answered has it"
        assert len((await first.store.turns(TurnFilter())).turns) == 1

    with_two_workers(tmp_path, body)


def test_a_key_of_a_dead_worker_is_refused_while_nobody_knows_what_became_of_its_request(
    tmp_path: Path,
) -> None:
    async def body(first: Worker, second: Worker) -> None:
        headers, data = {"idempotency-key": "key-1"}, json.dumps({"model": "demo", "input": "Hi"}).encode()
        await first.gateway.idempotency.claim(LOCAL, "key-1", fingerprint_of(data), follows=True)
        waiting = Caller(second.gateway, headers=headers, data=data)
        await stop_renewing(first.store)
        await waiting.task
        assert (waiting.status, waiting.error["code"]) == (409, "idempotency_outcome_unknown")
        assert (await second.store.turns(TurnFilter())).turns == ()

    with_two_workers(tmp_path, body)


def test_a_client_that_reconnects_to_another_worker_keeps_the_turn_running(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        caller = Caller(first.gateway, input="Count from 1 to 60.", stream=True)
        await caller.received(b"output_text.delta")
        resumed = Caller(second.gateway, f"/v1/responses/{caller.id}?stream=true", method="GET")
        await until(lambda: first.gateway.followers.is_followed((LOCAL, caller.id)))
        caller.disconnect()
        await resumed.task
        assert judge_stream(resumed.body)[-1]["type"] == "response.completed"
        await caller.task
        await until(lambda: not first.gateway.followers.is_followed((LOCAL, caller.id)))

    with_two_workers(tmp_path, body, settings=Settings(limits=Limits(disconnect_grace=0.2)))
