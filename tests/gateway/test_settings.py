"""Settings: where the name of a model is routed."""

from __future__ import annotations

import pytest

from penstock.gateway.settings import ClientKey, ModelRoute, RouteStep, Settings

FAST = ModelRoute(name="fast", steps=(RouteStep("near", "llama"), RouteStep("far")))


def settings(*, passthrough: str = "", **aliases: str) -> Settings:
    named = {"*" if name == "every" else name: target for name, target in aliases.items()}
    return Settings(models={"fast": FAST}, aliases=named, passthrough=passthrough)


def step(target: str, name: str) -> ModelRoute:
    return ModelRoute(name=name, steps=(RouteStep(target),))


@pytest.mark.parametrize(
    ("given", "model", "route"),
    [
        (settings(), "fast", FAST),
        (settings(), "demo", step("demo", "demo")),
        (settings(), "other", None),
        (settings(), "", None),
        (settings(quick="fast"), "quick", FAST),
        (settings(quick="demo"), "quick", step("demo", "demo")),
        # A target that takes every name gets it unchanged, also where an alias leads to it.
        (settings(passthrough="any"), "other", step("any", "other")),
        (settings(passthrough="any", quick="gpt-5"), "quick", step("any", "gpt-5")),
        (settings(passthrough="any"), "fast", FAST),
        (settings(passthrough="any"), "demo", step("demo", "demo")),
        # `*` is for names that nothing else has.
        (settings(every="fast"), "other", FAST),
        (settings(every="demo"), "fast", FAST),
        (settings(every="fast"), "demo", step("demo", "demo")),
        (settings(every="nothing"), "other", None),
    ],
)
def test_a_name_leads_to_its_route(given: Settings, model: str, route: ModelRoute | None) -> None:
    assert given.route_of(model) == route


def test_a_model_that_is_called_demo_does_not_hide_the_built_in_one() -> None:
    given = Settings(models={"demo": ModelRoute(name="demo", steps=(RouteStep("near"),))})
    assert given.route_of("demo") == step("demo", "demo")


def test_only_names_of_the_operator_are_public() -> None:
    given = settings(passthrough="any", quick="fast")
    assert [name for name in ("fast", "quick", "demo", "made-up") if given.names(name)] == [
        *("fast", "quick", "demo")
    ]


def test_the_digest_of_a_key_is_not_shown() -> None:
    assert repr(ClientKey(name="laptop", digest=b"\xab" * 32)) == "ClientKey('laptop')"
