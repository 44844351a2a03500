"""The checks of a target that use no model."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.doctor.findings import Finding
from penstock.doctor.targets import (
    ProbedModel,
    TargetState,
    configured_models,
    model_to_probe,
    query_target,
    target_findings,
)
from penstock.gateway.settings import ModelRoute, RouteStep, Settings
from penstock.models.info import ModelFacts
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Script, Server, answer, run, stall
from tests.doctor.model_server import ModelServer


def checked(
    server: Server, *, wanted: tuple[str, ...] = (), patience: float = 8.0, **target: Any
) -> dict[str, Finding]:
    async def check() -> TargetState:
        async with server:
            there = UpstreamTarget(**{"name": "t", "base_url": f"{server.url}/v1", **target})
            return await query_target(there, patience)

    return {each.id: each for each in target_findings(run(check()), wanted)}


def statuses(found: dict[str, Finding]) -> list[str]:
    return [found[id].status for id in ("key", "reach", "models")]


def test_a_healthy_target() -> None:
    found = checked(ModelServer(key="k1"), keys=("k1",), key_names=("OWN_KEY",))
    assert statuses(found) == ["ok", "ok", "ok"]
    assert found["key"].sentence == "OWN_KEY is set"
    assert found["models"].sentence == "1 chat model listed"
    assert {each.target for each in found.values()} == {"t"}


def test_a_refused_key_is_named_and_not_shown() -> None:
    keys = ("k1", "sk-planted-7fQ2x9LmZt4w")
    found = checked(ModelServer(key="k1"), keys=keys, key_names=("GOOD_KEY", "OLD_KEY"))
    assert statuses(found) == ["problem", "ok", "skipped"]
    assert found["key"].fix == "check the value of OLD_KEY"
    assert "planted" not in str(found)


def test_a_missing_key_is_named() -> None:
    found = checked(ModelServer(key="k1"), missing_key="set OWN_KEY")
    assert (found["key"].status, found["key"].fix) == ("problem", "set OWN_KEY")
    passing = checked(ModelServer(key="k1"), missing_key="set OWN_KEY", pass_key=True)
    assert (passing["key"].status, passing["key"].fix) == (
        "warning",
        "let clients send their own keys, or set OWN_KEY",
    )


def test_the_variable_of_a_preset_is_named_even_if_the_target_accepts_requests() -> None:
    found = checked(ModelServer(), preset="openai", missing_key="set OPENAI_API_KEY")
    assert (found["key"].status, found["key"].fix) == ("warning", "set OPENAI_API_KEY")
    assert "OPENAI_API_KEY is unset or empty" in found["key"].sentence
    assert checked(ModelServer())["key"].sentence == "no key is configured, and none was required"


def test_a_closed_port_and_an_unknown_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    closed = checked(Server(), base_url=f"http://127.0.0.1:{port}/v1")["reach"]
    assert (closed.status, closed.details["stage"]) == ("problem", "tcp")
    assert "connection refused" in closed.sentence
    unknown = checked(Server(), base_url="http://nowhere.invalid/v1", proxy="")["reach"]
    assert (unknown.status, unknown.details["stage"]) == ("problem", "dns")


def test_the_wrong_scheme() -> None:
    server = Server()

    async def check() -> TargetState:
        async with server:
            return await query_target(
                UpstreamTarget(name="t", base_url=f"https://127.0.0.1:{server.port}/v1"), 8.0
            )

    found = target_findings(run(check()), [])[1]
    assert (found.status, found.details["stage"]) == ("problem", "tls")
    assert "http://" in found.sentence


def test_a_server_that_does_not_answer() -> None:
    found = checked(Server([stall]), patience=0.05)
    assert statuses(found)[1:] == ["problem", "skipped"]
    assert "0.05 seconds" in found["reach"].sentence


WRONG: list[tuple[Script, list[str], str]] = [
    ([answer(200, b"<html><title>Log in</title></html>", "text/html")], ["problem", "skipped"], "web page"),
    ([answer(302, b"", location="https://elsewhere.example/")], ["problem", "skipped"], "redirects"),
    ([answer(404, {"error": {"message": "no list here"}})], ["ok", "warning"], "no list here"),
    ([answer(200, {"hello": 1})], ["ok", "warning"], "check the base URL"),
    ([answer(200, {"data": []})], ["ok", "warning"], "no chat models"),
    ([answer(503, {"error": {"message": "starting"}})], ["warning", "skipped"], "starting"),
]


@pytest.mark.parametrize(("script", "expected", "words"), WRONG)
def test_answers_that_are_not_a_list(script: Script, expected: list[str], words: str) -> None:
    found = checked(Server(script))
    assert statuses(found)[1:] == expected
    assert any(words in each.sentence for each in found.values())


def test_a_configured_model_that_is_not_listed() -> None:
    found = checked(ModelServer(models=("m-chat", "m-large")), wanted=("m-chat", "m-lagre"))["models"]
    assert (found.status, found.details["missing"]) == ("warning", ["m-lagre"])
    assert "did you mean m-large?" in found.sentence


def routes(**targets: tuple[RouteStep, ...]) -> dict[str, ModelRoute]:
    return {name: ModelRoute(name=name, steps=steps) for name, steps in targets.items()}


LISTED = [
    ModelFacts(id="old", tool_calling=False),
    ModelFacts(id="new"),
    ModelFacts(id="best", tool_calling=True),
]


def test_the_model_to_probe() -> None:
    settings = Settings(
        models=routes(fast=(RouteStep("t", "f-1"),), big=(RouteStep("u"), RouteStep("t"))),
        aliases={"std": "big"},
    )
    assert configured_models(settings, "t") == [ProbedModel("fast", "f-1"), ProbedModel("big", "big")]
    assert model_to_probe(settings, "t", LISTED) == ProbedModel("fast", "f-1")
    assert model_to_probe(settings, "t", LISTED, "big") == ProbedModel("big", "big")
    assert model_to_probe(settings, "t", LISTED, "f-1") == ProbedModel("fast", "f-1")
    assert model_to_probe(settings, "t", LISTED, "new") == ProbedModel("", "new")


def test_without_a_configured_model_a_listed_one_with_tools_is_probed() -> None:
    settings = Settings(passthrough="t")
    assert model_to_probe(settings, "t", LISTED) == ProbedModel("best", "best")
    assert model_to_probe(settings, "t", LISTED[:2]) == ProbedModel("new", "new")
    assert model_to_probe(settings, "u", LISTED) == ProbedModel("", "best")
    assert model_to_probe(settings, "t", []) is None


def test_the_default_model_comes_first_even_if_it_is_an_alias() -> None:
    settings = Settings(
        models=routes(fast=(RouteStep("t", "f-1"),), big=(RouteStep("t"),)),
        aliases={"std": "big"},
        default_model="std",
    )
    assert model_to_probe(settings, "t", []) == ProbedModel("big", "big")
