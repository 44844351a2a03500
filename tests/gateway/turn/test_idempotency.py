"""Which response an idempotency key is bound to (decision 32)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from msgspec.structs import replace

from penstock.gateway.errors import RequestRefused
from penstock.gateway.turn.idempotency import (
    LONGEST_KEY,
    UNSTORED_SECONDS,
    Claim,
    Earlier,
    IdempotencyKeys,
    fingerprint_of,
    read_key,
)
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.store.records import LOCAL, Closed
from tests.store.builders import Clock, opened

BODY = fingerprint_of(b"body")
MESSAGE = {"type": "message"}


def run(test: Callable[[IdempotencyKeys, Store, Clock], Awaitable[None]]) -> None:
    async def start() -> None:
        clock = Clock()
        store = MemoryStore(clock=clock)
        async with asyncio.timeout(10):
            await test(IdempotencyKeys(store, clock=clock), store, clock)

    asyncio.run(start())


async def bind(keys: IdempotencyKeys, store: Store, id: str = "resp_1") -> Claim:
    """Claim the key and open its response."""
    claim = await keys.claim(LOCAL, "key", BODY, follows=False)
    assert isinstance(claim, Claim)
    await store.open(replace(opened(id), memory=claim.memory(id)))
    claim.opened(id, store)
    return claim


async def end(
    keys: IdempotencyKeys,
    store: Store,
    claim: Claim,
    status: str,
    *,
    output: object = (),
    error: str = "",
    verdict: str = "",
) -> None:
    response = msgspec.json.encode({"output": output, "error": {"code": error} if error else None})
    assert claim.earlier is not None
    closed = Closed(status=status, response=response, verdict=msgspec.json.encode({"code": verdict}))
    await store.close(claim.earlier.id, closed)
    await keys.release(claim)


@pytest.mark.parametrize(
    ("status", "output", "error", "verdict", "is_bound"),
    [
        ("completed", [], "", "", True),
        ("incomplete", [MESSAGE], "", "", True),
        ("failed", [], "server_error", "server_error", False),
        ("failed", [], "rate_limit_exceeded", "", False),
        ("failed", [], "shutting_down", "", False),
        ("failed", [MESSAGE], "server_error", "", True),
        ("failed", [], "gateway_restarted", "", True),
        ("cancelled", [MESSAGE], "", "client_gone", False),
        ("cancelled", [MESSAGE], "", "client_stalled", False),
        ("cancelled", [MESSAGE], "", "", True),
    ],
)
def test_how_a_response_ended_decides_whether_its_key_is_bound(
    status: str, output: list[object], error: str, verdict: str, is_bound: bool
) -> None:
    async def test(keys: IdempotencyKeys, store: Store, _: Clock) -> None:
        claim = await bind(keys, store)
        await end(keys, store, claim, status, output=output, error=error, verdict=verdict)
        found = await keys.claim(LOCAL, "key", BODY, follows=False)
        assert found == Earlier("resp_1", store) if is_bound else isinstance(found, Claim)

    run(test)


def test_a_stream_is_followed_as_soon_as_it_can_be_read_and_others_wait_for_the_end() -> None:
    async def test(keys: IdempotencyKeys, store: Store, _: Clock) -> None:
        claim = await keys.claim(LOCAL, "key", BODY, follows=True)
        assert isinstance(claim, Claim)
        following, waiting = (
            asyncio.create_task(keys.claim(LOCAL, "key", BODY, follows=follows)) for follows in (True, False)
        )
        await asyncio.sleep(0)
        assert not following.done()
        await store.open(replace(opened("resp_1"), memory=claim.memory("resp_1")))
        claim.opened("resp_1", store)
        assert await following == Earlier("resp_1", store)
        assert not waiting.done()
        await end(keys, store, claim, "completed")
        assert await waiting == Earlier("resp_1", store)

    run(test)


def test_a_refused_request_passes_its_key_to_one_of_those_that_wait() -> None:
    async def test(keys: IdempotencyKeys, _: Store, __: Clock) -> None:
        first = await keys.claim(LOCAL, "key", BODY, follows=True)
        waiting = [asyncio.create_task(keys.claim(LOCAL, "key", BODY, follows=True)) for _ in range(2)]
        await asyncio.sleep(0)
        assert isinstance(first, Claim)
        await keys.release(first)
        done, pending = await asyncio.wait(waiting, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(pending)) == (1, 1)
        second = done.pop().result()
        assert isinstance(second, Claim)
        await keys.release(second)
        assert isinstance(await pending.pop(), Claim)

    run(test)


def test_another_body_is_refused_while_the_request_runs_and_after_it() -> None:
    async def test(keys: IdempotencyKeys, store: Store, _: Clock) -> None:
        async def refused() -> tuple[int, str]:
            with pytest.raises(RequestRefused) as caught:
                await keys.claim(LOCAL, "key", fingerprint_of(b"other"), follows=True)
            return caught.value.status, caught.value.code

        claim = await bind(keys, store)
        assert await refused() == (409, "idempotency_key_reused")
        await end(keys, store, claim, "completed")
        assert await refused() == (409, "idempotency_key_reused")
        assert isinstance(await keys.claim("other tenant", "key", BODY, follows=True), Claim)

    run(test)


def test_unstored_responses_are_forgotten_after_a_while() -> None:
    async def test(keys: IdempotencyKeys, _: Store, clock: Clock) -> None:
        await end(keys, keys.unstored, await bind(keys, keys.unstored), "completed")
        clock.now += UNSTORED_SECONDS
        assert isinstance(await keys.claim(LOCAL, "key", BODY, follows=True), Earlier)
        clock.now += 1
        await keys.prune()
        assert (await keys.unstored.stats()).responses == 0
        assert isinstance(await keys.claim(LOCAL, "key", BODY, follows=True), Claim)

    run(test)


def test_a_store_that_cannot_be_read_does_not_keep_the_key() -> None:
    class Broken(MemoryStore):
        async def recall(self, tenant: str, keys: object) -> dict[str, bytes]:  # noqa: ARG002
            raise OSError

    async def test() -> None:
        keys = IdempotencyKeys(Broken())
        for _ in range(2):
            with pytest.raises(OSError):  # noqa: PT011 - not a refusal, and no wait
                await keys.claim(LOCAL, "key", BODY, follows=True)

    asyncio.run(asyncio.wait_for(test(), 10))


def test_the_key_of_a_request() -> None:
    assert read_key({}) is None
    assert read_key({"x-client-request-id": "thread"}) is None
    for key in ("k", "with spaces", "x" * LONGEST_KEY):
        assert read_key({"idempotency-key": key}) == key
    for key in ("", "x" * (LONGEST_KEY + 1), "line\nbreak"):
        with pytest.raises(RequestRefused) as caught:
            read_key({"idempotency-key": key})
        assert (caught.value.status, caught.value.param) == (400, "idempotency-key")
