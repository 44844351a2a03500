"""The ledger of real gateways: after a kill, over the network, and under concurrent turns with a budget."""

from __future__ import annotations

import asyncio
import json
import signal
from hashlib import sha256
from pathlib import Path

import pytest

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, ClientKey, Settings
from penstock.store.ledger import Budget, KeyLimits, TurnFilter
from penstock.store.sqlite.store import open_sqlite_store
from penstock.tokens.counter import TokenCounter
from tests.cli.running import penstock
from tests.gateway.in_process import call
from tests.gateway.running import gateway

pytestmark = pytest.mark.e2e


def test_a_killed_gateway_leaves_no_turn_that_seems_to_run(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        running.whole("demo", store=False)
        with running.live("demo", "Answer slowly, with 500 words.", store=False) as live:
            live.until(b"response.output_text.delta")
            turns = running.ask(path="/v1/turns?outcome=running", method="GET").json["data"]
            assert [turn["is_stored"] for turn in turns] == [False]
            running.signal(signal.SIGKILL)
            running.process.wait(30)
    with gateway(tmp_path) as running:
        failed, completed = running.ask(path="/v1/turns", method="GET").json["data"]
        assert (failed["outcome"], failed["code"]) == ("failed", "gateway_restarted")
        assert failed["id"] == turns[0]["id"]
        assert completed["outcome"] == "completed"
        result = penstock("usage", "--base-url", f"{running.url}/v1", "--json")
        assert json.loads(result.stdout)["failed"] == 1
    stored = penstock("usage", "--store", str(tmp_path / "store.sqlite"), "--json")
    assert json.loads(stored.stdout) == json.loads(result.stdout)


def test_200_turns_at_once_cannot_overspend_a_budget_for_ten(tmp_path: Path) -> None:
    token, _ = create_key("alice")
    needed = 8 + 100
    """Tokens that each turn reserves: its input, and `max_output_tokens`."""
    limits = KeyLimits(budgets=(Budget(10 * needed, "tokens", "day"),))
    key = ClientKey(name="alice", digest=sha256(token.encode()).digest(), limits=limits)
    settings = Settings(keys=(key,))

    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        served = Gateway(settings, store=store)
        served.services = Services(settings, {DEMO: DemoUpstream(pace=0)}, served.metrics, TokenCounter())
        headers = {"authorization": f"Bearer {token}"}
        asked = (
            call(served, headers=headers, input="Hi", max_output_tokens=100, store=False) for _ in range(200)
        )
        statuses = [caller.status for caller in await asyncio.gather(*asked)]
        admitted = (await store.turns(TurnFilter(), limit=500)).turns
        [totals] = await store.totals(TurnFilter(), ())
        spent = totals.input_tokens + totals.output_tokens
        assert set(statuses) == {200, 429}
        assert statuses.count(200) == len(admitted) >= 10
        assert all(turn.reserved_tokens == needed for turn in admitted)
        assert spent <= 10 * needed
        await served.aclose()

    asyncio.run(run())
