"""The list of models: limits, names, visibility, and upstreams that do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given

from penstock.client.client import _models as read_by_our_client
from penstock.errors import ServerError
from penstock.gateway.codex_models import SAFE_EFFORTS
from penstock.gateway.model_listing import DEMO_MODEL, Fetch, Listing, model_body
from penstock.gateway.settings import DEMO, ModelRoute, RouteStep, Settings
from penstock.models.directory import RETRY_WAIT
from penstock.models.enrich import DEFAULT_OUTPUT, DEFAULT_WINDOW, enrich
from penstock.models.info import ModelFacts, ModelInfo, Prices
from penstock.models.listing import read_listing
from penstock.models.overrides import parse_override
from penstock.protocol.content import JsonObject
from penstock.upstream.target import UpstreamTarget
from tests.gateway.model_facts import MODEL_FACTS, body
from tests.models.fake_servers import PROPERTIES, Server

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class HastyLoop(asyncio.SelectorEventLoop):
    """Skips timers: their time counts as passed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]  # not in its types
        select = selector.select

        def skip(timeout: float | None = None) -> Any:
            self.skipped += timeout or 0.0
            return select(timeout and 0.0)

        selector.select = skip

    def time(self) -> float:
        return super().time() + self.skipped


class Upstreams:
    """What targets list. One that is not here fails; one behind a gate does not answer until it is opened."""

    def __init__(self, **lists: list[JsonObject]) -> None:
        self.lists: dict[str, list[JsonObject]] = lists
        self.gates: dict[str, asyncio.Event] = {}
        self.asked: list[str] = []

    async def __call__(self, target: str) -> list[JsonObject]:
        self.asked.append(target)
        if target in self.gates:
            await self.gates[target].wait()
        if target not in self.lists:
            raise ServerError("out of order")
        return self.lists[target]


def settings(*overrides: str, **fields: Any) -> Settings:
    return Settings(
        targets=(
            UpstreamTarget(name="near", base_url="http://127.0.0.1:1", preset="llamacpp"),
            UpstreamTarget(name="far", base_url="http://127.0.0.1:2"),
        ),
        overrides=tuple(map(parse_override, overrides)),
        **fields,
    )


def routes(**steps: tuple[str, ...]) -> dict[str, ModelRoute]:
    """`fast=("near/llama", "far")`."""
    return {name: ModelRoute(name=name, steps=tuple(map(route_step, chain))) for name, chain in steps.items()}


def route_step(written: str) -> RouteStep:
    target, _, model = written.partition("/")
    return RouteStep(target, model)


def listed(settings: Settings, fetch: Fetch, **options: Any) -> dict[str, ModelInfo]:
    return {info.id: info for info in run(Listing(settings, fetch, **options).models())}


# Which names there are


def test_without_settings_there_is_the_demo() -> None:
    (demo,) = run(Listing(Settings(), Upstreams()).models())
    assert (demo.id, demo.context_window, demo.max_output) == (DEMO, 128_000, 16_000)
    assert demo.image_input
    assert demo.tool_calling
    assert demo.reasoning


def test_models_come_before_aliases_before_what_is_passed_on_before_the_demo() -> None:
    given = settings(
        models=routes(b=("near/x",), a=("near/x",)),
        aliases={"other": "a", "*": "a"},
        passthrough="far",
    )
    assert [*listed(given, Upstreams(near=[], far=[{"id": "z"}, {"id": "y"}]))] == [
        *("b", "a", "other", "z", "y", DEMO)
    ]


def test_the_default_model_comes_first_because_codex_takes_the_first() -> None:
    given = settings(models=routes(b=("near/x",), a=("near/x",)), default_model="a")
    models = run(Listing(given, Upstreams(near=[])).models())
    assert [info.id for info in models] == ["a", "b", DEMO]
    assert [(entry["slug"], entry["priority"]) for entry in body(*models)["models"]] == [
        *(("a", 0), ("b", 1), (DEMO, 2))
    ]


def test_a_name_that_the_gateway_has_hides_the_same_name_of_an_upstream() -> None:
    given = settings("a = window:9000", models=routes(a=("near/x",)), passthrough="far")
    upstreams = Upstreams(near=[], far=[{"id": "a", "context_length": 5000}, {"id": DEMO}])
    found = run(Listing(given, upstreams).models())
    assert [(info.id, info.context_window) for info in found] == [("a", 9000), (DEMO, 128_000)]


# Whose limits


def test_limits_are_those_of_the_upstream_model_under_the_gateways_name() -> None:
    given = settings(models=routes(fast=("near/llama",)), aliases={"quick": "fast"})
    upstreams = Upstreams(near=[{"id": "llama", "context_length": 9000, "name": "Llama"}])
    found = listed(given, upstreams)
    for name in ("fast", "quick"):
        assert (found[name].context_window, found[name].sources["context_window"]) == (9000, "endpoint")
        assert found[name].name == name, "two names of one model must be distinguishable"
        assert found[name].family == "llama"


def test_an_upstreams_model_keeps_its_own_name_and_description() -> None:
    upstreams = Upstreams(far=[{"id": "llama", "name": "Llama", "description": "large"}])
    found = listed(settings(passthrough="far"), upstreams)
    assert (found["llama"].name, found["llama"].description) == ("Llama", "large")


def test_what_an_upstream_does_not_tell_is_from_the_catalog_by_the_upstreams_name() -> None:
    found = listed(settings(models=routes(best=("near/openai/gpt-5",))), Upstreams(near=[]))
    assert (found["best"].context_window, found["best"].sources["context_window"]) == (400_000, "catalog")


def test_the_first_step_that_lists_the_model_speaks_for_the_chain() -> None:
    given = settings(models=routes(m=("near/a", "far/b"), n=("near/a", "far/c")))
    found = listed(given, Upstreams(near=[], far=[{"id": "b", "context_length": 7000}]))
    assert found["m"].context_window == 7000
    assert found["n"].context_window == DEFAULT_WINDOW


def test_of_a_chain_that_nobody_lists_the_first_step_is_looked_up() -> None:
    found = listed(settings(models=routes(m=("near/gpt-4o", "far/gpt-5"))), Upstreams(near=[], far=[]))
    assert found["m"].context_window == 128_000


def test_a_step_without_a_model_asks_for_the_name_itself() -> None:
    found = listed(settings(models=routes(m=("far",))), Upstreams(far=[{"id": "m", "context_length": 7000}]))
    assert found["m"].context_window == 7000


@pytest.mark.parametrize(
    ("lines", "windows"),
    [
        (["llama = window:2000"], (2000, 2000, 2000)),
        (["llama = window:2000", "fast = window:3000"], (2000, 3000, 3000)),
        (["quick = window:4000", "fast = window:3000"], (9000, 3000, 4000)),
        (["fast = window:3000", "* = window:1000"], (1000, 3000, 3000)),
    ],
)
def test_an_override_holds_for_every_name_after_which_the_model_is(
    lines: list[str], windows: tuple[int, ...]
) -> None:
    """The requested name takes precedence, then the name that it stands for, then the upstream's."""
    given = settings(*lines, models=routes(fast=("far/llama",)), aliases={"quick": "fast"}, passthrough="far")
    found = listed(given, Upstreams(far=[{"id": "llama", "context_length": 9000}]))
    assert tuple(found[name].context_window for name in ("llama", "fast", "quick")) == windows


def test_the_demo_can_be_overridden_and_called_otherwise() -> None:
    found = listed(settings("demo = window:1000 no-images", aliases={"gpt-5": DEMO}), Upstreams())
    assert [(info.id, info.context_window) for info in found.values()] == [("gpt-5", 1000), (DEMO, 1000)]
    assert not found["gpt-5"].image_input
    assert found["gpt-5"].name == "gpt-5"
    assert found[DEMO].name == DEMO_MODEL.name


def test_a_server_on_this_machine_is_asked_what_it_has_loaded() -> None:
    upstreams = Upstreams(near=[{"id": "m", "owned_by": "llamacpp"}])
    asked = {"near": Server({"/props": PROPERTIES})}
    found = listed(settings(passthrough="near"), upstreams, fetchers=asked.get)
    assert (found["m"].context_window, found["m"].sources["context_window"]) == (8192, "probe")


# Upstreams that fail


def test_an_upstream_that_fails_costs_only_its_own_facts() -> None:
    given = settings(models=routes(m=("near/x",), n=("far/y",)), passthrough="near")
    found = listed(given, Upstreams(far=[{"id": "y", "context_length": 7000}]))
    assert [(info.id, info.context_window) for info in found.values()] == [
        *(("m", DEFAULT_WINDOW), ("n", 7000), (DEMO, 128_000))
    ]


def test_nobody_waits_for_an_upstream_that_does_not_answer_and_its_answer_is_used_when_it_comes() -> None:
    async def scenario() -> None:
        upstreams = Upstreams(far=[{"id": "z"}])
        gate = upstreams.gates["far"] = asyncio.Event()
        listing = Listing(settings(passthrough="far"), upstreams, patience=0.0)
        assert [info.id for info in await listing.models()] == [DEMO]
        assert [info.id for info in await listing.models()] == [DEMO]
        gate.set()
        while len(await listing.models()) == 1:
            await asyncio.sleep(0.001)
        assert [info.id for info in await listing.models()] == ["z", DEMO]
        assert upstreams.asked == ["far"], "all of them shared one request"

    run(scenario())


def test_only_the_first_who_asks_waits_for_an_upstream_that_never_answers() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HastyLoop)
        upstreams = Upstreams()
        upstreams.gates["far"] = asyncio.Event()
        listing = Listing(settings(passthrough="far"), upstreams, patience=1000.0)
        assert [info.id for info in await listing.models()] == [DEMO]
        waited = loop.skipped
        assert 900 < waited < 1001
        assert [info.id for info in await listing.models()] == [DEMO]
        assert loop.skipped - waited < 1

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(scenario())


def test_the_first_answer_is_waited_for() -> None:
    async def scenario() -> None:
        upstreams = Upstreams(far=[{"id": "z"}])
        gate = upstreams.gates["far"] = asyncio.Event()
        listing = Listing(settings(passthrough="far"), upstreams, patience=3600.0)
        asking = [asyncio.create_task(listing.models()) for _ in range(3)]
        while not upstreams.asked:
            await asyncio.sleep(0.001)
        assert not any(task.done() for task in asking)
        gate.set()
        assert [[info.id for info in await task] for task in asking] == [["z", DEMO]] * 3
        assert upstreams.asked == ["far"]

    run(scenario())


def test_an_old_list_is_given_while_a_new_one_is_asked_for_and_when_it_cannot_be_had() -> None:
    async def scenario() -> None:
        clock, upstreams = Clock(), Upstreams(far=[{"id": "z"}])
        listing = Listing(settings(passthrough="far"), upstreams, patience=3600.0, clock=clock)
        await listing.models()
        clock.now += 301
        gate = upstreams.gates["far"] = asyncio.Event()
        assert [info.id for info in await listing.models()] == ["z", DEMO]
        del upstreams.lists["far"]
        gate.set()
        for _ in range(3):
            assert [info.id for info in await listing.models()] == ["z", DEMO]
        assert upstreams.asked == ["far", "far"], "an upstream that failed is left alone for a while"
        clock.now += RETRY_WAIT
        upstreams.lists["far"] = [{"id": "new"}]
        while [info.id for info in await listing.models()] != ["new", DEMO]:
            await asyncio.sleep(0.001)

    run(scenario())


def test_an_upstream_that_is_gone_is_not_asked_for_every_list() -> None:
    async def scenario() -> None:
        upstreams = Upstreams()
        listing = Listing(settings(passthrough="far"), upstreams, clock=Clock())
        for _ in range(5):
            await listing.models()
        assert upstreams.asked == ["far"]

    run(scenario())


# One model


@pytest.mark.parametrize(
    ("name", "window"),
    [("fast", 9000), ("quick", 9000), (DEMO, 128_000), ("nothing", None), ("llama", None)],
)
def test_one_model_is_found_under_every_name_that_leads_somewhere(name: str, window: int | None) -> None:
    given = settings(models=routes(fast=("near/llama",)), aliases={"quick": "fast"})
    listing = Listing(given, Upstreams(near=[{"id": "llama", "context_length": 9000}]))
    found = run(listing.find(name))
    assert (found and found.context_window) == window
    assert found is None or found.id == name


def test_where_every_name_is_passed_on_one_is_found_that_is_not_listed() -> None:
    listing = Listing(settings(passthrough="far"), Upstreams(far=[{"id": "z"}]))
    found = run(listing.find("gpt-4o"))
    assert found is not None
    assert (found.id, found.sources["context_window"]) == ("gpt-4o", "catalog")


def test_where_every_name_is_another_model_its_limits_are_found() -> None:
    given = settings(models=routes(m=("far/z",)), aliases={"*": "m"})
    found = run(Listing(given, Upstreams(far=[{"id": "z", "context_length": 7000}])).find("whatever"))
    assert found is not None
    assert (found.id, found.context_window) == ("whatever", 7000)


def test_only_the_upstreams_after_a_name_are_asked_for_it() -> None:
    upstreams = Upstreams(near=[], far=[])
    run(Listing(settings(models=routes(m=("near/x",)), passthrough="far"), upstreams).find("m"))
    assert upstreams.asked == ["near"]


@pytest.mark.parametrize("aliases", [{"*": "nowhere"}, {"a": "b", "b": "a"}, {"a": "a"}])
def test_names_that_lead_in_circles_or_nowhere_are_not_there(aliases: dict[str, str]) -> None:
    listing = Listing(settings(aliases=aliases), Upstreams())
    assert [info.id for info in run(listing.models())] == [DEMO]
    assert run(listing.find("a")) is None


# What is written


def test_the_body_has_openais_list_and_codexs() -> None:
    answer = body(enrich(ModelFacts(id="acme/model-1", window=1000)))
    assert answer["object"] == "list"
    (entry,) = answer["data"]
    assert [entry[name] for name in ("id", "object", "created", "owned_by")] == [
        *("acme/model-1", "model", 1_700_000_000, "acme")
    ]
    assert [entry["slug"] for entry in answer["models"]] == ["acme/model-1"]
    assert entry == json.loads(
        model_body(enrich(ModelFacts(id="acme/model-1", window=1000)), created=1_700_000_000)
    )


def test_every_limit_is_listed_under_the_names_that_clients_read_with_its_source() -> None:
    override = parse_override("m = window:1000").facts
    (entry,) = body(enrich(ModelFacts(id="m", max_output=200), override))["data"]
    windows = {entry[name] for name in ("context_window", "context_length", "max_model_len")}
    assert (windows, entry["max_input_tokens"], entry["max_output_tokens"]) == ({1000}, 800, 200)
    assert entry["sources"] == {
        "context_window": "override",
        "max_input_tokens": "override",
        "max_output_tokens": "endpoint",
    }


def test_an_unknown_output_limit_is_not_listed() -> None:
    info = enrich(ModelFacts(id="m"))
    (entry,) = body(info)["data"]
    assert info.max_output == DEFAULT_OUTPUT
    assert "max_output_tokens" not in entry
    assert entry["max_input_tokens"] == info.max_input


@given(MODEL_FACTS)
def test_another_penstock_reads_back_what_this_one_knows(facts: ModelFacts) -> None:
    """A gateway in front of a gateway, and the editor's own client."""
    info = enrich(facts)
    (read,) = read_listing(read_by_our_client(body(info)))
    again = enrich(read)
    for field in ModelInfo.__struct_fields__:
        if field not in ("sources", "name"):
            assert getattr(again, field) == getattr(info, field), field
    assert again.name == info.name or not info.name.strip()


PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


SECTION = PAGE.partition("## What the gateway lists")[2]


def test_the_page_names_every_field_and_every_effort() -> None:
    (entry,) = body(enrich(ModelFacts(id="m", max_output=1000, description="x", prices=Prices(1, 2))))["data"]
    openais = {"id", "object", "created", "owned_by", "name", "description"}
    assert [field for field in entry.keys() - openais if f"`{field}`" not in SECTION] == []
    assert [effort for effort in SAFE_EFFORTS if f"`{effort}`" not in SECTION] == []
