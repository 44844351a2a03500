"""Requests that are repeated under one `Idempotency-Key` (decision 32)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import RateLimitError, ServerError
from penstock.gateway.gateway import Gateway
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.turn import idempotency
from penstock.store import open_store
from tests.dialects.chat_streams import chunk
from tests.gateway.fake_upstreams import Answer, FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import Caller, Json, call, chain, with_gateway
from tests.gateway.upstream import frames

KEY = {"idempotency-key": "k-1"}
SHAPES = [
    pytest.param({"stream": stream, "store": store}, id=f"stream={stream},store={store}")
    for stream in (True, False)
    for store in (True, False)
]


def ask(gateway: Gateway, headers: dict[str, str] = KEY, **body: Any) -> Caller:
    return Caller(gateway, headers=headers, **{"model": "m", "input": "x", **body})


async def asked(gateway: Gateway, headers: dict[str, str] = KEY, **body: Any) -> Caller:
    async with asyncio.timeout(20):
        return await call(gateway, headers=headers, **{"model": "m", "input": "x", **body})


def with_upstream(test: Callable[[Gateway], Awaitable[None]], upstream: FakeUpstream, **limits: Any) -> None:
    settings = chain(upstream, limits=Limits(**{"retries": 0, "patience": 60, **limits}))
    with_gateway(test, upstream, settings=settings)


def response_of(caller: Caller) -> Json:
    response: Json = caller.response if b"event:" in caller.body else caller.json
    return response


@pytest.mark.parametrize("shape", SHAPES)
def test_a_repeated_request_gets_the_same_response_without_an_upstream_call(shape: Json) -> None:
    upstream = FakeUpstream("only", answer("first"), answer("second"))

    async def test(gateway: Gateway) -> None:
        first, again = await asked(gateway, **shape), await asked(gateway, **shape)
        assert (first.status, again.status) == (200, 200)
        assert response_of(again) == response_of(first)
        if shape["stream"]:
            assert again.body == first.body
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        other = await asked(gateway, {"idempotency-key": "k-2"}, **shape)
        assert response_of(other)["id"] != response_of(first)["id"]

    with_upstream(test, upstream)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_that_is_repeated_while_it_runs_joins_the_running_turn(shape: Json) -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, **shape)
        while not upstream.requests:
            await asyncio.sleep(0.001)
        again = [ask(gateway, **shape) for _ in range(3)]
        if shape["stream"]:
            await again[0].received(b"output_text.delta")
        gate.set()
        await asyncio.gather(first.task, *(each.task for each in again))
        for each in again:
            assert response_of(each) == response_of(first)

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_another_body_under_the_same_key_is_a_conflict(shape: Json) -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, **shape)
        while not upstream.requests:
            await asyncio.sleep(0.001)
        running = await asked(gateway, **shape, temperature=1)
        gate.set()
        await first.task
        ended = await asked(gateway, **shape, temperature=1)
        for conflict in (running, ended):
            assert (conflict.status, conflict.error["code"]) == (409, "idempotency_key_reused")

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("name", ["x-client-request-id", "x-request-id", "session-id"])
def test_no_other_header_is_an_idempotency_key(name: str) -> None:
    """Codex sends its thread id as `x-client-request-id` with every turn."""
    upstream = FakeUpstream("only", answer("first"), answer("second"))

    async def test(gateway: Gateway) -> None:
        headers = {name: "the same"}
        first, second = await asked(gateway, headers), await asked(gateway, headers, input="y")
        assert (first.status, second.status) == (200, 200)
        assert first.json["id"] != second.json["id"]

    with_upstream(test, upstream)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("patience", [0, 60], ids=["in the stream", "as a status"])
@pytest.mark.parametrize(
    "failure", [RateLimitError("slowly", status=429), ServerError("broken", status=500)], ids=["429", "500"]
)
def test_a_key_is_free_again_after_a_failure_without_output(
    failure: Exception, patience: float, shape: Json
) -> None:
    gate = asyncio.Event()
    first_answer: Answer = failure if patience else [gate, failure]
    upstream = FakeUpstream("only", first_answer, answer("second"))

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, **shape)
        if not patience and shape["stream"]:
            await first.received(b"response.created")
        gate.set()
        await first.task
        again = await asked(gateway, **shape)
        assert response_of(again)["status"] == "completed"
        assert "idempotent-replayed" not in again.headers

    with_upstream(test, upstream, patience=patience)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_failure_after_output_is_repeated(shape: Json) -> None:
    broken: Answer = [frames(chunk({"content": "half"}), done=False), ServerError("broken", status=500)]
    upstream = FakeUpstream("only", broken, answer("second"))

    async def test(gateway: Gateway) -> None:
        first, again = await asked(gateway, **shape), await asked(gateway, **shape)
        assert again.status == first.status == (200 if shape["stream"] else 500)
        if shape["stream"]:
            assert again.body == first.body
        else:
            assert again.json == first.json
            assert again.json["response"]["output"][0]["content"][0]["text"] == "half"

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_is_free_again_after_its_client_has_disconnected(shape: Json) -> None:
    upstream, _ = paused_upstream()
    upstream._answers.append(answer("second"))

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, **shape)
        while not upstream.sources:
            await asyncio.sleep(0.001)
        first.disconnect()
        await first.task
        again = await asked(gateway, **shape)
        assert response_of(again)["status"] == "completed"

    with_upstream(test, upstream)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("store", [True, False])
def test_a_client_that_repeats_its_request_before_it_disconnects_keeps_the_turn_running(store: bool) -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, stream=True, store=store)
        await first.received(b"output_text.delta")
        again = ask(gateway, stream=True, store=store)
        await again.received(b"output_text.delta")
        first.disconnect()
        for _ in range(50):
            await asyncio.sleep(0)
        gate.set()
        await again.task
        await first.task
        assert again.response["status"] == "completed"
        assert again.text == "ab"

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


def test_a_cancelled_response_keeps_its_key() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = ask(gateway, stream=True)
        await first.received(b"output_text.delta")
        await call(gateway, f"/v1/responses/{first.id}/cancel")
        await first.task
        again = await asked(gateway, stream=True)
        assert again.response["incomplete_details"] == {"reason": "cancelled"}
        assert again.body == first.body

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_background_response_is_returned_as_it_is_now(stream: bool) -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        shape: Json = {"background": True, "stream": stream}
        first = ask(gateway, **shape)
        while not upstream.sources:
            await asyncio.sleep(0.001)
        again = ask(gateway, **shape)
        await again.received(b"response.created" if stream else b'"status"')
        gate.set()
        await asyncio.gather(first.task, again.task)
        await gateway.turns.ended.wait()
        late = await asked(gateway, **shape)
        assert response_of(late)["status"] == "completed"
        assert response_of(late)["id"] == response_of(again)["id"] == response_of(first)["id"]

    with_upstream(test, upstream)
    assert len(upstream.requests) == 1


def test_a_deleted_response_frees_its_key() -> None:
    upstream = FakeUpstream("only", answer("first"), answer("second"))

    async def test(gateway: Gateway) -> None:
        first = await asked(gateway)
        await call(gateway, f"/v1/responses/{first.json['id']}", method="DELETE")
        assert (await asked(gateway)).json["id"] != first.json["id"]

    with_upstream(test, upstream)


def test_each_client_has_its_own_keys() -> None:
    upstream = FakeUpstream("only", answer("first"), answer("second"))
    keys = tuple(ClientKey(name=name, digest=sha256(name.encode()).digest()) for name in ("a", "b"))

    async def test(gateway: Gateway) -> None:
        first, second = [
            await asked(gateway, {**KEY, "authorization": f"Bearer {name}"}) for name in ("a", "b")
        ]
        assert first.json["id"] != second.json["id"]

    with_gateway(test, upstream, settings=chain(upstream, keys=keys))


@pytest.mark.parametrize("value", ["", "x" * 256, "a\tb"])
def test_an_invalid_key_is_refused(value: str) -> None:
    upstream = FakeUpstream("only", answer("never"))

    async def test(gateway: Gateway) -> None:
        refused = await asked(gateway, {"idempotency-key": value})
        assert (refused.status, refused.error["param"]) == (400, "idempotency-key")

    with_upstream(test, upstream)
    assert upstream.requests == []


def test_a_request_that_was_refused_does_not_use_its_key() -> None:
    upstream = FakeUpstream("only", answer("first"))

    async def test(gateway: Gateway) -> None:
        assert (await asked(gateway, previous_response_id="resp_nowhere")).status == 400
        assert (await asked(gateway)).status == 200

    with_upstream(test, upstream)


def test_unstored_responses_are_not_retrievable_and_their_number_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idempotency, "UNSTORED_RESPONSES", 10)
    upstream = FakeUpstream("only", answer("text"))

    async def test(gateway: Gateway) -> None:
        first = await asked(gateway, store=False)
        assert (await call(gateway, f"/v1/responses/{first.json['id']}", method="GET")).status == 404
        for number in range(10):
            await asked(gateway, {"idempotency-key": f"other-{number}"}, store=False)
        assert (await gateway.idempotency.unstored.stats()).responses == 10
        assert (await asked(gateway, store=False)).json["id"] != first.json["id"]

    with_upstream(test, upstream)


def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    upstream = FakeUpstream("only", answer("first"), answer("second"))
    ids = []

    async def run() -> None:
        gateway = Gateway(chain(upstream), store=await open_store(tmp_path / "store.db"))
        gateway.services._upstreams = {"only": upstream}
        ids.append((await asked(gateway)).json["id"])
        await gateway.aclose()

    for _ in range(2):
        asyncio.run(run())
    assert ids[0] == ids[1]
    assert len(upstream.requests) == 1


def test_a_request_that_a_crash_interrupted_is_not_run_again(tmp_path: Path) -> None:
    """Its outcome is unknown: the client gets the failed response, and decides (decision 33)."""
    upstream = FakeUpstream("only", [asyncio.Event()], answer("second"))
    settings = chain(upstream, limits=Limits(patience=0))

    async def crash() -> None:
        store = await open_store(tmp_path / "store.db")
        gateway = Gateway(settings, store=store)
        gateway.services._upstreams = {"only": upstream}
        caller = ask(gateway, stream=True)
        await caller.received(b"response.created")
        await store.aclose()  # the file is as a dead process would leave it: with a turn that has no end
        caller.disconnect()
        await caller.task

    async def again() -> Caller:
        gateway = Gateway(settings, store=await open_store(tmp_path / "store.db"))
        gateway.services._upstreams = {"only": upstream}
        caller = await asked(gateway, stream=True)
        await gateway.aclose()
        return caller

    asyncio.run(crash())
    assert asyncio.run(again()).response["error"]["code"] == "gateway_restarted"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_whose_process_died_before_it_was_stored_is_not_run_again(
    tmp_path: Path, shape: Json
) -> None:
    upstream = FakeUpstream("only", [asyncio.Event()], answer("second"))
    settings = chain(upstream, limits=Limits(patience=60))

    async def crash() -> None:
        store = await open_store(tmp_path / "store.db")
        gateway = Gateway(settings, store=store)
        gateway.services._upstreams = {"only": upstream}
        caller = ask(gateway, **shape)
        while not upstream.requests:
            await asyncio.sleep(0.001)
        await store.aclose()  # the upstream was called, and nothing else is in the file
        caller.disconnect()
        await caller.task

    async def again() -> None:
        gateway = Gateway(settings, store=await open_store(tmp_path / "store.db"))
        gateway.services._upstreams = {"only": upstream}
        refused = await asked(gateway, **shape)
        assert (refused.status, refused.error["code"]) == (409, "idempotency_outcome_unknown")
        assert refused.error["param"] == "idempotency-key"
        assert refused.headers["x-should-retry"] == "false"
        assert len(upstream.requests) == 1
        assert (await asked(gateway, {"idempotency-key": "k-2"}, **shape)).status == 200
        await gateway.aclose()

    asyncio.run(crash())
    asyncio.run(again())


def test_an_unstored_response_is_not_made_again_after_a_restart(tmp_path: Path) -> None:
    upstream = FakeUpstream("only", answer("first"), answer("second"))
    answers = []

    async def run() -> None:
        gateway = Gateway(chain(upstream), store=await open_store(tmp_path / "store.db"))
        gateway.services._upstreams = {"only": upstream}
        answers.append(await asked(gateway, store=False))
        await gateway.aclose()

    for _ in range(2):
        asyncio.run(run())
    assert answers[0].status == 200
    assert (answers[1].status, answers[1].error["code"]) == (409, "idempotency_outcome_unknown")
    assert "was not stored" in answers[1].error["message"]
    assert len(upstream.requests) == 1
