"""Services: the upstreams, routes and counters that belong to one version of the settings."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import InvalidRequestError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.services import Fleet, Services
from penstock.gateway.settings import ClientKey, ModelRoute, RouteStep, Settings
from penstock.gateway.telemetry.metrics import Metrics
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.items import Message
from penstock.protocol.request import CreateResponse
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import UpstreamTarget
from tests.gateway.fake_upstreams import FakeUpstream

NEAR, FAR = FakeUpstream("near", []), FakeUpstream("far", [])
ROUTED = Settings(
    targets=tuple(UpstreamTarget(name=name, base_url="http://127.0.0.1:1") for name in ("near", "far")),
    models={"fast": ModelRoute(name="fast", steps=(RouteStep("near", "llama"), RouteStep("far")))},
    aliases={"quick": "fast"},
)


def target(name: str, port: int = 1, **fields: str) -> UpstreamTarget:
    return UpstreamTarget(name=name, base_url=f"http://127.0.0.1:{port}/v1", **fields)  # type: ignore[arg-type]


def services(settings: Settings = ROUTED) -> Services:
    return Services(settings, {"near": NEAR, "far": FAR, "demo": NEAR}, Metrics(), TokenCounter())


# The fleet


def test_an_upstream_whose_target_did_not_change_survives_a_reload() -> None:
    """Its connections stay open, and resting keys keep resting."""
    fleet = Fleet()
    before, dropped = fleet.renew([target("same"), target("moved"), target("removed")])
    assert dropped == []
    after, dropped = fleet.renew([target("same"), target("moved", port=2), target("new")])
    assert after["same"] is before["same"]
    assert after["demo"] is before["demo"]
    assert after["moved"] is not before["moved"]
    assert dropped == [before["moved"], before["removed"]]
    assert set(after) == {"demo", "same", "moved", "new"}
    assert fleet.all() == [after[name] for name in ("demo", "same", "moved", "new")]


def test_a_target_that_cannot_work_leaves_the_fleet_as_it_was() -> None:
    fleet = Fleet()
    before, _ = fleet.renew([target("one")])
    with pytest.raises(InvalidRequestError):
        fleet.renew([target("two"), UpstreamTarget(name="bad", base_url="https://{region}.example/v1")])
    again, dropped = fleet.renew([target("one")])
    assert again["one"] is before["one"]
    assert dropped == []


def test_keys_that_rest_are_counted_for_each_target() -> None:
    fleet = Fleet()
    upstreams, _ = fleet.renew([UpstreamTarget(name="one", base_url="http://127.0.0.1:1", keys=("a", "b"))])
    upstreams["one"].keys.rest("a", 60)
    assert fleet.resting() == {"one": 1}


# Routes


def test_candidates_are_the_steps_of_a_route_in_order() -> None:
    async def test() -> None:
        found = [(each.upstream.name, each.model) for each in services().candidates("quick")]
        assert found == [("near", "llama"), ("far", "fast")]  # a step without a model gets the name itself

    asyncio.run(test())


def test_a_name_that_leads_nowhere_is_refused_with_the_names_that_exist() -> None:
    async def test() -> None:
        with pytest.raises(RequestRefused) as caught:
            services().candidates("nobody" * 100)
        assert (caught.value.status, caught.value.code, caught.value.param) == (
            404,
            "model_not_found",
            "model",
        )
        assert "available: demo, fast, quick" in caught.value.message
        assert len(caught.value.message) < 300

    asyncio.run(test())


def test_similar_names_are_suggested_but_none_that_the_key_may_not_use() -> None:
    key = ClientKey(name="laptop", digest=b"", models=("fast", "demo"))

    def refusal(model: str, key: ClientKey | None) -> str:
        with pytest.raises(RequestRefused) as caught:
            services().candidates(model, key)
        return caught.value.message

    async def test() -> None:
        assert refusal("Fats", None) == "there is no model 'Fats'; did you mean fast?"
        assert refusal("quik", None) == "there is no model 'quik'; did you mean quick?"
        assert refusal("quik", key) == "there is no model 'quik'; available: demo, fast"

    asyncio.run(test())


# Counting


def counted(settings: Settings, model: str) -> str:
    async def test() -> str:
        made = services(settings)
        made.count_turn(
            Verdict(request_id="r", model=model, target="near", outcome="completed", closer="upstream")
        )
        return made.metrics.render().decode()

    return asyncio.run(test())


def test_a_name_that_a_client_made_up_is_counted_as_other() -> None:
    """There is no end to such names, and they may say something about the client."""
    assert 'penstock_turns_total{model="quick",' in counted(ROUTED, "quick")
    rendered = counted(ROUTED, "planted-name")
    assert 'penstock_turns_total{model="other",' in rendered
    assert "planted" not in rendered


def test_the_time_of_the_first_output_is_counted_only_if_there_was_one() -> None:
    async def test() -> None:
        made = services()
        made.count_turn(Verdict(request_id="r", model="fast", outcome="failed", closer="upstream"))
        assert "penstock_first_output_seconds_count 0" in made.metrics.render().decode()
        made.count_turn(
            Verdict(request_id="r", model="fast", outcome="failed", closer="upstream", first_output_ms=0)
        )
        assert "penstock_first_output_seconds_count 1" in made.metrics.render().decode()

    asyncio.run(test())


def test_services_are_idle_when_the_last_turn_has_left() -> None:
    async def test() -> None:
        made = services()
        assert made.idle.is_set()
        made.enter()
        made.enter()
        made.leave()
        assert not made.idle.is_set()
        made.leave()
        assert made.idle.is_set()

    asyncio.run(test())


def test_tokens_are_counted_as_the_model_after_the_name_counts_them() -> None:
    """An alias for an OpenAI model has that model's tokenizer, whatever it is called."""
    text = "Straßenbahnhaltestelle " * 50
    request = CreateResponse(input=[Message(role="user", content=text)])

    def route(model: str) -> Settings:
        return Settings(models={"fast": ModelRoute(name="fast", steps=(RouteStep("near", model),))})

    async def test() -> None:
        exact = services(route("gpt-4o")).count_input(request, "fast")
        direct = services(route("gpt-4o")).count_input(request, "fast")
        other = services(route("claude-sonnet-4-5")).count_input(request, "fast")
        assert exact == direct != other
        usage = services(route("gpt-4o")).estimate(
            request, "fast", [Message(role="assistant", content="Hello")]
        )
        assert usage.input_tokens == exact
        assert usage.output_tokens

    asyncio.run(test())
