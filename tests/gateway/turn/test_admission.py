"""Admission of turns: one record per turn, the limits of keys, and what happens if the ledger fails."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.demo.upstream import DemoUpstream
from penstock.errors import NetworkError, StoreError
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, ClientKey, Limits, Settings
from penstock.gateway.turn.admission import LEFT_OUT, Admission, cost_of, exceeded_refusal, share_of
from penstock.gateway.turn.verdict import Verdict
from penstock.models.info import ModelFacts, Prices
from penstock.models.overrides import Override
from penstock.store.ledger import Budget, Exceeded, KeyLimits, TurnFilter, TurnRecord
from penstock.store.memory import MemoryStore
from penstock.store.sqlite.store import open_sqlite_store
from penstock.tokens.counter import TokenCounter
from penstock.upstream.attempts import Attempts, Candidate
from penstock.upstream.target import Upstream
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import SLOW, Caller, call, chain
from tests.gateway.websocket_client import Conversation
from tests.store.builders import Clock
from tests.store.ledger_records import NOON, started
from tests.store.sqlite.stores import fill_disk

KEY, _ = create_key("alice")
AUTHORIZED = {"authorization": f"Bearer {KEY}", "user-agent": "agent/1\x00"}
PRICED = Override(DEMO, ModelFacts(id=DEMO, prices=Prices(10.0, 100.0)))


def settings_with(limits: KeyLimits, *overrides: Override) -> Settings:
    key = ClientKey(name="alice", digest=sha256(KEY.encode()).digest(), limits=limits)
    return Settings(keys=(key,), overrides=overrides)


def in_gateway(
    settings: Settings, body: Callable[[Gateway], Awaitable[None]], clock: Callable[[], float] | None = None
) -> None:
    async def run() -> None:
        gateway = Gateway(settings, store=MemoryStore(), clock=clock or Clock(NOON))
        gateway.services = Services(settings, {DEMO: DemoUpstream(pace=0)}, gateway.metrics, TokenCounter())
        try:
            await body(gateway)
        finally:
            await gateway.aclose()

    asyncio.run(run())


async def ask(gateway: Gateway, **body: Any) -> Caller:
    return await call(gateway, headers=AUTHORIZED, **{"input": "Hi", "max_output_tokens": 50, **body})


async def records(gateway: Gateway) -> list[TurnRecord]:
    return list(reversed((await gateway.store.turns(TurnFilter())).turns))


# Records


def test_every_field_of_the_verdict_is_in_the_record_or_left_out_for_a_reason() -> None:
    fields = set(Verdict.__struct_fields__)
    assert fields - set(TurnRecord.__struct_fields__) == set(LEFT_OUT)


def test_every_turn_has_a_record_whether_or_not_its_response_is_stored() -> None:
    async def check(gateway: Gateway) -> None:
        for options in ({"store": False}, {"store": True}, {"stream": True}, {"background": True}):
            assert (await ask(gateway, **options)).status == 200
        while gateway.running():
            await asyncio.sleep(0.001)
        found = await records(gateway)
        assert [record.is_stored for record in found].count(True) == 3
        for record in found:
            assert (record.tenant, record.model, record.closer) == ("alice", "demo", "upstream")
            assert record.ended_at == NOON
            assert record.input_tokens > 0
            assert record.cost == 0.0  # the demo model is free
            assert record.user_agent == "agent/1?"
            assert record.reserved_tokens == 0  # nothing is counted for a key without limits

    in_gateway(settings_with(KeyLimits()), check)


def test_a_turn_that_runs_has_an_open_record_and_a_cancelled_one_is_settled() -> None:
    async def check(gateway: Gateway) -> None:
        gateway.services = Services(
            gateway.services.settings, {DEMO: DemoUpstream()}, gateway.metrics, TokenCounter()
        )
        caller = Caller(gateway, headers=AUTHORIZED, input=SLOW, stream=True, store=False)
        await caller.runs()
        [record] = await records(gateway)
        assert (record.outcome, record.ended_at) == ("running", None)
        caller.disconnect()
        await caller.task
        [record] = await records(gateway)
        assert (record.id, record.outcome, record.closer) == (caller.id, "cancelled", "client")

    in_gateway(settings_with(KeyLimits(concurrent_turns=1)), check)


def test_an_invalid_request_has_no_record() -> None:
    async def check(gateway: Gateway) -> None:
        assert (await ask(gateway, model="nope")).status == 404
        assert (await ask(gateway, background=True, store=False)).status == 400
        assert await records(gateway) == []
        assert gateway.running() == 0

    in_gateway(settings_with(KeyLimits(concurrent_turns=1)), check)


def test_the_metrics_are_the_sums_of_the_ledger() -> None:
    async def check(gateway: Gateway) -> None:
        await ask(gateway)
        await ask(gateway, store=False)
        failed = await ask(gateway, input="Fail in the middle.", stream=True)
        assert failed.events[-1]["type"] == "response.failed"
        [key] = gateway.services.settings.keys
        conversation = Conversation(gateway, key, KEY)
        assert (await conversation.turn(model="demo"))[-1]["type"] == "response.completed"
        conversation.task.cancel()
        await asyncio.gather(conversation.task, return_exceptions=True)
        caller = Caller(gateway, headers=AUTHORIZED, input=SLOW, stream=True)
        await caller.received(b"response.output_text.delta")
        caller.disconnect()
        await caller.task
        text = (await call(gateway, "/metrics", method="GET", headers=AUTHORIZED)).body.decode()
        assert "penstock_turns_total" not in text  # it is no administrator
        [totals] = await gateway.store.totals(TurnFilter(), ("key",))
        assert totals.turns == 5
        assert metric_sum(gateway, "penstock_turns_total", 'key="alice"') == totals.turns
        for kind in ("input", "cached", "output", "reasoning"):
            counted = metric_sum(gateway, "penstock_tokens_total", f'kind="{kind}",key="alice"')
            assert counted == getattr(totals, f"{kind}_tokens")
        assert totals.cost > 0
        assert metric_sum(gateway, "penstock_cost_dollars_total", 'key="alice"') == pytest.approx(totals.cost)

    in_gateway(settings_with(KeyLimits(), PRICED), check)


def metric_sum(gateway: Gateway, name: str, label: str) -> float:
    lines = gateway.metrics.render().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name) and label in line)


def test_a_turn_over_a_websocket_has_a_record_and_a_refusal_is_an_error_envelope() -> None:
    clock = Clock(NOON)

    async def check(gateway: Gateway) -> None:
        [key] = gateway.services.settings.keys
        conversation = Conversation(gateway, key, KEY)
        assert (await conversation.turn(model="demo", store=False))[-1]["type"] == "response.completed"
        [refused] = await conversation.turn(model="demo")
        assert (refused["type"], refused["status"]) == ("error", 429)
        assert refused["error"]["code"] == "rate_limit_exceeded"
        clock.now += 61  # the socket is still usable
        assert (await conversation.turn(model="demo"))[-1]["type"] == "response.completed"
        await gateway.turns.ended.wait()
        found = await records(gateway)
        assert [(each.tenant, each.stream, each.outcome) for each in found] == [
            ("alice", True, "completed")
        ] * 2
        assert metric_sum(gateway, "penstock_turns_total", 'key="alice"') == 2
        conversation.task.cancel()
        await asyncio.gather(conversation.task, return_exceptions=True)

    in_gateway(settings_with(KeyLimits(requests_per_minute=1)), check, clock)


def test_a_turn_that_only_warms_up_a_websocket_has_a_record_and_reserves_nothing() -> None:
    async def check(gateway: Gateway) -> None:
        [key] = gateway.services.settings.keys
        conversation = Conversation(gateway, key, KEY)
        for _ in range(2):
            assert (await conversation.turn(model="demo", generate=False))[-1]["type"] == "response.completed"
        [refused] = await conversation.turn(model="demo", generate=False)
        assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded")
        first, second = await records(gateway)
        assert (first.outcome, first.closer, first.target) == ("completed", "gateway", "")
        assert (first.reserved_tokens, first.input_tokens, first.cost) == (0, 0, 0.0)
        assert second.ended_at is not None
        assert metric_sum(gateway, "penstock_turns_total", 'key="alice"') == 2
        assert gateway.running() == 0
        conversation.task.cancel()
        await asyncio.gather(conversation.task, return_exceptions=True)

    limits = KeyLimits(requests_per_minute=2, budgets=(Budget(10, "tokens", "day"),))
    in_gateway(settings_with(limits), check)


def test_a_key_that_expires_on_an_open_websocket_begins_no_more_turns() -> None:
    clock = Clock(NOON)

    async def check(gateway: Gateway) -> None:
        [key] = gateway.services.settings.keys
        conversation = Conversation(gateway, key, KEY)
        assert (await conversation.turn(model="demo"))[-1]["type"] == "response.completed"
        clock.now += 60
        [refused] = await conversation.turn(model="demo")
        assert (refused["status"], refused["error"]["code"]) == (401, "authentication_error")
        assert "expired" in refused["error"]["message"]
        conversation.task.cancel()
        await asyncio.gather(conversation.task, return_exceptions=True)

    settings = settings_with(KeyLimits())
    in_gateway(replace(settings, keys=(replace(settings.keys[0], expires_at=NOON + 60),)), check, clock)


# Costs


def test_cached_input_has_its_own_price() -> None:
    verdict = Verdict(request_id="r", input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    assert cost_of(verdict, Prices(1.0, 10.0, 0.5)) == pytest.approx(0.6 + 0.2 + 1.0)
    assert cost_of(verdict, Prices(1.0, 10.0)) == pytest.approx(1.0 + 1.0)
    assert cost_of(replace(verdict, cached_tokens=2_000_000), Prices(1.0, 0.0, 0.5)) == pytest.approx(0.5)
    written = replace(verdict, cache_write_tokens=200_000)
    assert cost_of(written, Prices(1.0, 10.0, 0.5, 2.0)) == pytest.approx(0.4 + 0.2 + 0.4 + 1.0)
    assert cost_of(written, Prices(1.0, 10.0, 0.5)) == cost_of(verdict, Prices(1.0, 10.0, 0.5))
    full = replace(written, cached_tokens=1_000_000)
    assert cost_of(full, Prices(1.0, 0.0, 0.5, 2.0)) == pytest.approx(0.5)


# Limits


def test_a_rate_is_refused_with_the_time_until_there_is_room() -> None:
    clock = Clock(NOON)

    async def check(gateway: Gateway) -> None:
        assert (await ask(gateway)).status == 200
        clock.now += 20
        refused = await ask(gateway)
        assert (refused.status, refused.headers["retry-after"]) == (429, "40")
        assert (refused.error["code"], refused.error["type"]) == ("rate_limit_exceeded", "too_many_requests")
        message = "the key 'alice' may send 1 requests per minute and has sent 1: try again in 40 seconds"
        assert refused.error["message"] == message
        assert len(await records(gateway)) == 1
        assert gateway.running() == 0
        clock.now += 40
        assert (await ask(gateway)).status == 200

    in_gateway(settings_with(KeyLimits(requests_per_minute=1)), check, clock)


def test_a_reservation_is_input_and_the_most_output_until_the_turn_is_settled() -> None:
    async def check(gateway: Gateway) -> None:
        assert (await ask(gateway)).status == 200
        [record] = await records(gateway)
        assert 50 + record.input_tokens <= record.reserved_tokens < 70
        refused = await ask(gateway, max_output_tokens=None)
        assert refused.status == 429
        assert "this request may need 4," in refused.error["message"]
        assert refused.headers["x-should-retry"] == "false"
        assert (await ask(gateway)).status == 200

    in_gateway(settings_with(KeyLimits(tokens_per_minute=1000)), check)


def test_a_budget_is_refused_with_the_time_of_its_reset() -> None:
    async def check(gateway: Gateway) -> None:
        assert (await ask(gateway)).status == 200
        refused = await ask(gateway, max_output_tokens=900)
        assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
        assert refused.error["type"] == "too_many_requests"
        assert refused.headers["retry-after"] == str(12 * 3600)
        assert "The budget is reset at 2026-11-19T00:00Z" in refused.error["message"]
        assert (await ask(gateway, background=True, max_output_tokens=900)).status == 429
        assert gateway.running() == 0

    in_gateway(settings_with(KeyLimits(budgets=(Budget(900, "tokens", "day"),))), check)


def test_a_budget_in_dollars_needs_a_price() -> None:
    limits = KeyLimits(budgets=(Budget(0.006, "cost", "month"),))

    async def check(gateway: Gateway) -> None:
        assert (await ask(gateway, max_output_tokens=10)).status == 200
        [record] = await records(gateway)
        assert record.cost == pytest.approx((record.input_tokens * 10 + record.output_tokens * 100) / 1e6)
        assert record.reserved_cost > (record.cost or 0.0)
        refused = await ask(gateway, max_output_tokens=60)
        assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
        assert "is $0.006 per month; $" in refused.error["message"]

    in_gateway(settings_with(limits, PRICED), check)

    async def unpriced(gateway: Gateway) -> None:
        admission = Admission(
            replace(started("resp_1"), model="m"),
            limits,
            store=gateway.store,
            local=gateway.local_ledger,
            listing=gateway.services.listing_for({}),
            attempts=Attempts(
                [Candidate(FakeUpstream("elsewhere"), "m")], retries=0, wait_budget=0.0, random=lambda: 0.0
            ),
            clock=gateway.clock,
        )
        with pytest.raises(Exception, match="price of the model 'm' is not known"):
            await admission.admit()

    in_gateway(settings_with(limits), unpriced)


@pytest.mark.parametrize("is_priced", [True, False])
def test_a_budget_in_dollars_reserves_for_the_dearest_target_and_uses_none_without_a_price(
    is_priced: bool,
) -> None:
    def priced(model: str, price: float) -> Override:
        return Override(model, ModelFacts(id=model, prices=Prices(price, price)))

    async def check(gateway: Gateway) -> None:
        first, second = (
            FakeUpstream("a", NetworkError("gone", phase="connect")),
            FakeUpstream("b", answer("Hello.")),
        )
        known: dict[str, Upstream] = {DEMO: DemoUpstream(pace=0), "a": first, "b": second}
        gateway.services = Services(gateway.services.settings, known, gateway.metrics, TokenCounter())
        answered = await ask(gateway, model="m")
        [record] = await records(gateway)
        if is_priced:
            assert answered.status == 200
            assert record.reserved_cost == pytest.approx(record.reserved_tokens * 20 / 1e6)
            assert 0 < (record.cost or 0.0) <= record.reserved_cost
        else:
            assert (answered.status, second.requests) == (502, [])
            assert record.reserved_cost == pytest.approx(record.reserved_tokens * 2 / 1e6)

    upstreams = FakeUpstream("a"), FakeUpstream("b")
    key = settings_with(KeyLimits(budgets=(Budget(1.0, "cost", "day"),))).keys
    overrides = [priced("m-at-a", 2.0), *([priced("m-at-b", 20.0)] if is_priced else [])]
    limits = Limits(retries=0)
    in_gateway(chain(*upstreams, keys=key, overrides=tuple(overrides), limits=limits), check)


@pytest.mark.parametrize(
    ("exceeded", "words"),
    [
        (
            Exceeded(limit="concurrent_turns", allowed=2, used=2, retry_after=1.0),
            "may run 2 turns at a time, and 2 are running: try again in 1 second",
        ),
        (
            Exceeded(limit="tokens_per_minute", allowed=10_000, used=9_000, retry_after=7.4),
            "may use 10,000 tokens per minute; 9,000 are used or reserved, and this request may need 1,500",
        ),
    ],
)
def test_a_refusal_says_which_limit_and_how_much(exceeded: Exceeded, words: str) -> None:
    refused = exceeded_refusal(started("resp_1", tokens=1500), exceeded)
    assert words in refused.message
    assert refused.status == 429


# When the ledger fails


def test_on_a_full_disk_rates_are_counted_in_the_process_and_budgets_are_refused(tmp_path: Path) -> None:
    async def run(limits: KeyLimits, name: str) -> list[tuple[int, str]]:
        store = await open_sqlite_store(tmp_path / name, clock=Clock(NOON))
        settings = settings_with(limits)
        gateway = Gateway(settings, store=store, clock=Clock(NOON))
        gateway.services = Services(settings, {DEMO: DemoUpstream(pace=0)}, gateway.metrics, TokenCounter())
        try:
            first = await ask(gateway, store=False)
            assert first.status == 200
            await fill_disk(store)
            answers = []
            for _ in range(60):  # until the free pages of the file are used up, and a few more
                answer = await ask(gateway, store=False)
                answers.append((answer.status, "" if answer.status == 200 else answer.error["code"]))
            return answers
        finally:
            await gateway.aclose()

    rates = asyncio.run(run(KeyLimits(requests_per_minute=50, concurrent_turns=1), "rates.db"))
    assert rates == [(200, "")] * 49 + [(429, "rate_limit_exceeded")] * 11  # the first turn counts
    budgets = asyncio.run(run(KeyLimits(budgets=(Budget(10**9, "tokens", "day"),)), "budgets.db"))
    assert budgets[-1] == (503, "store_unavailable")


def test_of_several_workers_each_allows_its_share_and_at_least_one() -> None:
    limits = KeyLimits(requests_per_minute=10, concurrent_turns=1, budgets=(Budget(10, "tokens", "day"),))
    assert share_of(limits, 1) == limits
    assert share_of(limits, 4) == replace(limits, requests_per_minute=3, concurrent_turns=1)


def test_a_store_that_hangs_does_not_hang_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.gateway.turn.admission.PATIENCE", 0.0)

    class Hanging(MemoryStore):
        async def admit(self, *_: object) -> Exceeded | None:
            await asyncio.Event().wait()
            raise StoreError(StoreError.LATE, "never")

    async def check(gateway: Gateway) -> None:
        gateway.store = Hanging()
        refused = await ask(gateway)
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        assert json.loads(refused.body)["error"]["code"] == "store_unavailable"
        [record] = await records(gateway)  # it may have been opened, so it is ended
        assert (record.outcome, record.code, record.cost) == ("refused", "store_unavailable", 0.0)
        assert gateway.running() == 0

    in_gateway(settings_with(KeyLimits(budgets=(Budget(10**9, "tokens", "day"),))), check)


def test_a_turn_that_the_ledger_admits_too_late_is_recorded_as_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.gateway.turn.admission.PATIENCE", 0.01)

    async def run() -> None:
        path, settings = tmp_path / "store.db", settings_with(KeyLimits(concurrent_turns=1))
        store = await open_sqlite_store(path, clock=Clock(NOON))
        gateway = Gateway(settings, store=store, clock=Clock(NOON))
        paced = {DEMO: DemoUpstream(pace=0.01)}
        gateway.services = Services(settings, paced, gateway.metrics, TokenCounter())
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            numbers = "Count from 1 to 60."
            running = Caller(gateway, headers=AUTHORIZED, input=numbers, stream=True, store=False)
            await running.runs()
            refused = await ask(gateway)
            other.execute("ROLLBACK")
            await store.totals(TurnFilter(), ())  # what waited for the file is written before the turn ends
            await running.task
            assert refused.status == 429
            assert sorted((each.outcome, each.code) for each in await records(gateway)) == [
                ("completed", ""),
                ("refused", "rate_limit_exceeded"),
            ]
            totals = {each.group["outcome"]: each for each in await store.totals(TurnFilter(), ("outcome",))}
            assert totals["completed"].output_tokens == running.response["usage"]["output_tokens"]
            for outcome in totals:
                assert metric_sum(gateway, "penstock_turns_total", f'outcome="{outcome}"') == 1
            window = [each.id for each in gateway.local_ledger.recent("alice", 0.0)]
            assert window == [running.id]  # a refused request does not count
        finally:
            other.close()
            await gateway.aclose()

    asyncio.run(run())
