"""`GET /v1/turns` and `GET /v1/usage`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key, sees_all
from penstock.gateway.settings import ClientKey, Settings
from penstock.store.memory import MemoryStore
from tests.gateway.in_process import Caller, call
from tests.store.ledger_records import NOON, ended, started

ALICE, BOB = create_key("alice")[0], create_key("bob")[0]


def with_turns(body: Callable[[Gateway], Awaitable[None]], *, has_keys: bool = True) -> None:
    """Run the body with a gateway whose ledger has three turns of two keys."""
    names = {"alice": ALICE, "bob": BOB} if has_keys else {}
    keys = tuple(ClientKey(name=name, digest=sha256(key.encode()).digest()) for name, key in names.items())

    async def run() -> None:
        gateway = Gateway(Settings(keys=keys), store=MemoryStore())
        gateway.store.settle_turn(ended(started("a"), tokens=10, cost=0.5))
        gateway.store.settle_turn(replace(ended(started("b", NOON + 1), tokens=20), model="large"))
        gateway.store.settle_turn(ended(started("c", NOON + 2, tenant="bob"), tokens=40))
        try:
            await body(gateway)
        finally:
            await gateway.aclose()

    asyncio.run(run())


async def get(gateway: Gateway, path: str, key: str = ALICE) -> Caller:
    return await call(gateway, path, method="GET", headers={"x-api-key": key})


def ids(caller: Caller) -> list[str]:
    assert caller.status == 200
    return [turn["id"] for turn in caller.json["data"]]


def test_a_client_sees_only_its_own_turns() -> None:
    async def check(gateway: Gateway) -> None:
        assert ids(await get(gateway, "/v1/turns")) == ["b", "a"]
        assert ids(await get(gateway, "/v1/turns", BOB)) == ["c"]
        assert (await get(gateway, "/v1/turns?key=bob")).status == 403
        assert ids(await get(gateway, "/v1/turns?key=alice")) == ["b", "a"]
        usage = await get(gateway, "/v1/usage?by=key")
        assert [totals["group"] for totals in usage.json["data"]] == [{"key": "alice"}]
        assert (await call(gateway, "/v1/turns", method="GET")).status == 401

    with_turns(check)


def test_whoever_may_see_all_sees_every_tenant() -> None:
    assert sees_all(None)  # without keys, every client may

    async def check(gateway: Gateway) -> None:
        assert ids(await get(gateway, "/v1/turns")) == ["c", "b", "a"]
        assert ids(await get(gateway, "/v1/turns?key=bob")) == ["c"]
        usage = (await get(gateway, "/v1/usage?by=key,model")).json
        assert usage["by"] == ["key", "model"]
        found = {tuple(each["group"].values()): each for each in usage["data"]}
        assert set(found) == {("alice", "demo"), ("alice", "large"), ("bob", "demo")}
        assert found["alice", "demo"] | {"group": {}} == {
            "group": {},
            "turns": 1,
            "failed": 0,
            "input_tokens": 5,
            "cached_tokens": 0,
            "output_tokens": 5,
            "reasoning_tokens": 0,
            "cost": 0.5,
            "unpriced": 0,
            "estimated": 0,
            "duration_ms": 0,
        }

    with_turns(check, has_keys=False)


def test_turns_come_in_pages() -> None:
    async def check(gateway: Gateway) -> None:
        first = await get(gateway, "/v1/turns?limit=1")
        assert (ids(first), first.json["has_more"]) == (["b"], True)
        second = await get(gateway, f"/v1/turns?limit=1&after={first.json['next']}")
        assert (ids(second), second.json["has_more"], second.json["next"]) == (["a"], False, None)

    with_turns(check)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("model=large", ["b"]),
        ("outcome=failed", []),
        ("search=LARG", ["b"]),
        (f"since={NOON + 1}", ["b"]),
        ("until=2026-11-18T12:00:01%2B00:00", ["a"]),
        ("since=2026-11-18", ["b", "a"]),
    ],
)
def test_turns_are_filtered(query: str, expected: list[str]) -> None:
    async def check(gateway: Gateway) -> None:
        assert ids(await get(gateway, f"/v1/turns?{query}")) == expected

    with_turns(check)


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/turns?limit=0", "limit"),
        ("/v1/turns?limit=501", "limit"),
        ("/v1/turns?after=nonsense", "after"),
        ("/v1/turns?since=yesterday", "since"),
        ("/v1/turns?until=nan", "until"),
        ("/v1/turns?modle=large", "modle"),
        ("/v1/usage?by=colour", "by"),
        ("/v1/usage?by=key,key", "by"),
        ("/v1/usage?limit=5", "limit"),
    ],
)
def test_an_invalid_parameter_is_named(path: str, param: str) -> None:
    async def check(gateway: Gateway) -> None:
        refused = await get(gateway, path)
        error: dict[str, Any] = refused.error
        assert (refused.status, error["code"], error["param"]) == (400, "invalid_request", param)

    with_turns(check)
