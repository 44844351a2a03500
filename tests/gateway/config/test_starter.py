"""The first `penstock.toml`: it can be read, and says what was chosen."""

from __future__ import annotations

import re

import pytest

from penstock.dialects.presets import PRESETS
from penstock.gateway.config.file import read_settings
from penstock.gateway.config.starter import StarterModel, starter_file, starter_models
from penstock.gateway.settings import ModelRoute, RouteStep, Settings
from penstock.upstream.discovery import FoundUpstream

KEY = "sk-planted-0123456789"


def upstream(preset: str, *models: str, name: str = "", base_url: str = "") -> FoundUpstream:
    row = PRESETS[preset]
    return FoundUpstream(
        name=name or preset,
        preset=preset,
        base_url=base_url or row.base_url,
        key_variable=row.key_variable,
        models=models,
    )


LOCAL = upstream("ollama", "qwen3:8b", "gemma3")
VENDOR = upstream("anthropic", "claude-opus-4-7", "claude-x", "c", "d", "e")


def read(text: str) -> Settings:
    assert KEY not in text
    assert max(map(len, text.splitlines())) <= 100
    return read_settings(text, file="penstock.toml", environment={"ANTHROPIC_API_KEY": KEY})


def model(settings: Settings, name: str) -> ModelRoute:
    found = settings.route_of(name)
    assert found is not None
    return found


def test_the_default_models_target_gets_every_other_name() -> None:
    settings = read(starter_file([LOCAL, VENDOR], starter_models([LOCAL])[1]))
    assert (settings.default_model, settings.passthrough) == ("gemma3", "ollama")
    assert [(each.name, each.preset, each.keys) for each in settings.targets] == [
        ("ollama", "ollama", ()),
        ("anthropic", "anthropic", (KEY,)),
    ]
    assert model(settings, "gemma3").steps == (RouteStep("ollama"),)
    assert model(settings, "claude-x").steps == (RouteStep("anthropic"),)
    assert list(settings.models) == ["claude-opus-4-7", "claude-x", "c", "d"]


def test_the_default_model_may_be_of_any_upstream_and_beyond_those_that_are_shown() -> None:
    settings = read(starter_file([LOCAL, VENDOR], StarterModel("e", VENDOR, "e")))
    assert (settings.default_model, settings.passthrough) == ("e", "anthropic")
    assert list(settings.models) == ["qwen3:8b", "gemma3"]


def test_two_upstreams_with_the_same_model_have_different_names() -> None:
    other = upstream("ollama", "qwen3:8b", name="ollama-2", base_url="http://127.0.0.1:11435/v1")
    settings = read(starter_file([LOCAL, other], starter_models([LOCAL, other])[0]))
    assert model(settings, "qwen3:8b").steps == (RouteStep("ollama"),)
    assert model(settings, "ollama-2/qwen3:8b").steps == (RouteStep("ollama-2", "qwen3:8b"),)
    assert settings.targets[1].base_url == "http://127.0.0.1:11435/v1"


def test_a_model_with_the_name_of_the_demo_model_is_left_out() -> None:
    assert [each.name for each in starter_models([upstream("ollama", "demo", "a")])] == ["a"]


def test_without_upstreams_the_demo_model_is_the_default() -> None:
    settings = read(starter_file([], None))
    assert (settings.default_model, settings.passthrough, settings.targets) == ("demo", "", ())


def test_the_port_is_written_with_the_reason() -> None:
    assert read(starter_file([], None)).port == 8080
    text = starter_file([], None, port=8081)
    assert read(text).port == 8081
    assert "# 8080 was in use when this file was written" in text


@pytest.mark.parametrize("upstreams", [[], [LOCAL], [VENDOR, LOCAL]])
def test_the_examples_in_comments_are_valid(upstreams: list[FoundUpstream]) -> None:
    """Removing the comment signs gives a file that can be read."""
    text = starter_file(upstreams, starter_models(upstreams)[0] if upstreams else None)
    settings = re.compile(r'^# ((?:\[|\w+ = |"[^"]*" = ).*)$', re.MULTILINE)
    text = settings.sub(r"\1", text).replace("sha256:...", f"sha256:{'0' * 64}")
    if len(upstreams) == 1:
        text = text.replace("local/some-model", "ollama/other")
    found = read(text)
    assert found.aliases == {"gpt-5": "best"}
    assert len(found.models["best"].steps) == 2
    assert (found.limits.max_turns, [each.name for each in found.keys]) == (20, ["laptop"])
    assert found.passthrough
