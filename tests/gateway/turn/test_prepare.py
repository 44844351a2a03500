"""From a request to a turn that can run: limits, headers, and what is stored."""

from __future__ import annotations

import json

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits, Settings
from penstock.gateway.turn.prepare import Prepared, diagnostics_header, limits_for, prepare
from penstock.gateway.turn.requests import read_request
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event
from penstock.store.keeper import CacheKeeper
from penstock.store.records import LOCAL
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import Json, call, with_gateway


def exchange(**headers: str) -> Exchange:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Exchange(FakeHttpChannel(headers=named))


async def prepared(gateway: Gateway, body: Json, watch: Stopwatch | None = None, **headers: str) -> Prepared:
    request = read_request(json.dumps(body).encode(), "", Limits())
    resolved = await complete(gateway, None, request, 0)
    return prepare(gateway, exchange(**headers), None, resolved, watch or Stopwatch(lambda: 0.0))


# Heartbeats that a client asks for


@pytest.mark.parametrize("seconds", ["0.1", "2.5", "3600"])
def test_a_client_chooses_how_often_it_gets_heartbeats(seconds: str) -> None:
    """The first heartbeat begins the stream, so it limits `patience` as well."""
    limits = limits_for(Limits(patience=7), exchange(x_penstock_heartbeat=seconds))
    every = float(seconds)
    assert limits == Limits(patience=min(7, every), comment_every=every, event_every=every)


@pytest.mark.parametrize("seconds", ["", "often", "0", "0.09", "-1", "3601", "inf", "nan", "1e9"])
def test_a_heartbeat_interval_out_of_range_is_refused_by_name(seconds: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        limits_for(Limits(), exchange(x_penstock_heartbeat=seconds))
    assert (caught.value.status, caught.value.param) == (400, "x-penstock-heartbeat")


def test_without_the_header_the_limits_are_the_gateways() -> None:
    limits = Limits()
    assert limits_for(limits, exchange()) is limits


# Headers of the answer


def test_diagnostics_fit_into_one_header() -> None:
    assert diagnostics_header([]) == []
    two = [Diagnostic(code="a", message="one"), Diagnostic(code="b", message="two")]
    assert diagnostics_header(two) == [("x-penstock-diagnostics", "a: one; b: two")]
    [(_, value)] = diagnostics_header([Diagnostic(code="a", message="x" * 5000)])
    assert len(value) == 2000


def test_the_head_has_the_overhead_and_every_diagnostic_known_so_far() -> None:
    async def test(gateway: Gateway) -> None:
        now = [0.0]
        body = {"model": "m", "input": "Hi", "stream_options": {"include_obfuscation": True}}
        ready = await prepared(gateway, body, Stopwatch(lambda: now[0]))
        now[0] = 0.25
        ready.keeper.diagnostics.append(Diagnostic(code="store_late", message="later"))
        head = dict(ready.head())
        assert head["x-penstock-overhead-ms"] == "250.0"
        assert head["x-penstock-diagnostics"].startswith("field_dropped: ")
        assert head["x-penstock-diagnostics"].endswith("; store_late: later")

    with_gateway(test, FakeUpstream("only", answer("Yes.")))


# Refusals before an upstream is called


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    async def test(gateway: Gateway) -> None:
        with pytest.raises(RequestRefused) as caught:
            await prepared(gateway, {"model": "x" * 1000, "input": "Hi"})
        assert (caught.value.status, caught.value.param) == (404, "model")
        assert "demo, m" in caught.value.message
        assert len(caught.value.message) < 300

    with_gateway(test, FakeUpstream("only", answer("Yes.")))


def test_an_unknown_event_naming_is_refused() -> None:
    async def test(gateway: Gateway) -> None:
        with pytest.raises(RequestRefused) as caught:
            await prepared(gateway, {"model": "m", "input": "Hi"}, x_penstock_accent="texan")
        assert caught.value.param == "x-penstock-accent"

    with_gateway(test, FakeUpstream("only", answer("Yes.")))


# What is stored


def first_events(ready: Prepared) -> list[Event]:
    return ready.machine.start()


def test_a_turn_with_store_false_leaves_nothing_in_the_store() -> None:
    async def test(gateway: Gateway) -> None:
        ready = await prepared(gateway, {"model": "m", "input": "Hi", "store": False})
        assert isinstance(ready.keeper, CacheKeeper)
        await ready.keeper.keep(first_events(ready))
        assert await gateway.store.get(LOCAL, ready.turn.id) is None

    with_gateway(test, FakeUpstream("only", answer("Yes.")))


def test_the_record_of_a_request_has_no_secrets() -> None:
    """Fields that are unknown may contain anything, a key as well."""
    server = {
        "type": "mcp",
        "server_label": "s",
        "server_url": "http://127.0.0.1/",
        "authorization": "planted",
    }
    body = {"model": "m", "input": "Hi", "tools": [server], "api_key": "planted"}

    async def test(gateway: Gateway) -> None:
        ready = await prepared(gateway, body)
        await ready.keeper.keep(first_events(ready))
        stored = await gateway.store.get(LOCAL, ready.turn.id)
        assert stored is not None
        assert stored.status == "in_progress"
        assert b"server_label" in stored.request
        assert b"planted" not in stored.request + stored.response

    with_gateway(test, FakeUpstream("only", answer("Yes.")))


def test_a_background_turn_is_queued(verdicts: list[Json]) -> None:
    async def test(gateway: Gateway) -> None:
        ready = await prepared(gateway, {"model": "m", "input": "Hi", "background": True})
        await ready.keeper.keep(ready.machine.start(queued=True))
        stored = await gateway.store.get(LOCAL, ready.turn.id)
        assert stored is not None
        assert stored.status == "queued"

    with_gateway(test, FakeUpstream("only", answer("Yes.")))
    assert verdicts == []  # it has not run


def test_the_stored_verdict_is_that_of_the_end(verdicts: list[Json]) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, model="m", input="Hi")
        stored = await gateway.store.get(LOCAL, caller.json["id"])
        assert stored is not None
        kept = json.loads(stored.verdict)
        assert (kept["outcome"], kept["target"]) == ("completed", "only")
        assert kept["output_tokens"] == verdicts[0]["output_tokens"] > 0

    with_gateway(test, FakeUpstream("only", answer("Yes.")), settings=None)


def test_settings_reach_the_attempts() -> None:
    """The limits of the settings are those of the turn, also where a client changes the heartbeats."""

    async def test(gateway: Gateway) -> None:
        ready = await prepared(gateway, {"model": "demo", "input": "Hi"}, x_penstock_heartbeat="5")
        assert (ready.limits.disconnect_grace, ready.limits.comment_every) == (42.0, 5.0)

    with_gateway(test, settings=Settings(limits=Limits(disconnect_grace=42)))
