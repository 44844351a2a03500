"""The model with which a client starts, and what is found out before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.connect.model_choice import ModelChoice, choose_model, with_own_keys
from penstock.dialects.presets import PRESETS
from penstock.gateway.config.file import read_settings
from penstock.gateway.config.options import OptionError, ServeOptions, settings_from
from penstock.gateway.settings import RouteStep, Settings
from tests.client.server import answer, run
from tests.upstream.local_servers import LocalServer, listed

KEYS = {"MY_KEY": "sk-planted-0123456789"}

FILE = """
default_model = "fast"
[targets.mine]
base_url = "URL"
keys = ["MY_KEY"]
[models.fast]
target = "mine"
model = "small"
[aliases]
cheap = "fast"
"""


def from_file(text: str) -> Settings:
    return read_settings(text, file="penstock.toml", environment=KEYS)


def chosen(text: str, models: Any, *, options: str = "", model: str = "") -> ModelChoice:
    """Return the choice with a configuration file, or with an upstream of the options, at a server that
    lists these models. `URL` stands for its address."""

    async def choose() -> ModelChoice:
        async with LocalServer(models) as server:
            url = f"{server.url}/v1"
            settings = from_file(text.replace("URL", url))
            target = ""
            if options:
                given = ServeOptions(upstream=url, api_key_env=options if options in KEYS else "")
                added = settings_from(given, None, KEYS)
                target = added.passthrough
                settings = replace(settings, targets=(*settings.targets, *added.targets), passthrough=target)
            return await choose_model(with_own_keys(settings, target), target=target, model=model)

    return run(choose())


def test_without_upstreams_it_is_the_demo_model() -> None:
    choice = run(choose_model(Settings()))
    assert (choice.model, choice.targets, choice.warnings) == ("demo", (), ())


@pytest.mark.parametrize(
    ("text", "asked", "model"),
    [
        (FILE, "", "fast"),
        (FILE, "cheap", "cheap"),
        (FILE, "demo", "demo"),
        (FILE.replace('default_model = "fast"', ""), "", "fast"),
        ('[aliases]\n"*" = "demo"', "", "demo"),
        ('passthrough = "mine"\n[targets.mine]\nbase_url = "URL"\nkeys = ["MY_KEY"]', "", "small"),
    ],
)
def test_the_configured_model_is_used_unless_another_is_wanted(text: str, asked: str, model: str) -> None:
    choice = chosen(text, listed("small", "large"), model=asked)
    assert (choice.model, choice.warnings) == (model, ())


def test_the_model_of_an_upstream_in_the_options_is_the_first_that_it_lists() -> None:
    choice = chosen(FILE, listed("small", "large"), options="yes")
    assert (choice.model, [each.name for each in choice.targets]) == ("small", ["upstream"])


def test_a_name_of_the_file_does_not_hide_a_model_of_the_options() -> None:
    for name in ("fast", "cheap"):
        choice = chosen(FILE, listed("fast", "cheap"), options="yes", model=name)
        route = choice.settings.route_of(name)
        assert route is not None
        assert route.steps == (RouteStep("upstream", name),)
        assert choice.warnings == ()


def test_a_model_that_is_not_listed_is_used_with_a_warning() -> None:
    choice = chosen("", listed("qwen3-coder", "gemma3"), options="yes", model="qwen3-codr")
    assert choice.model == "qwen3-codr"
    assert choice.warnings == ("targets.upstream does not list qwen3-codr: did you mean qwen3-coder?",)
    choice = chosen("", listed("gemma3"), options="yes", model="x")
    assert choice.warnings == ("targets.upstream does not list x: check the name",)


def test_an_unknown_model_of_the_file_is_refused_with_a_suggestion() -> None:
    with pytest.raises(OptionError, match='there is no model called "fats"; did you mean fast'):
        chosen(FILE, listed("small"), model="fats")


def test_an_upstream_that_lists_nothing_needs_a_name() -> None:
    with pytest.raises(
        OptionError, match=r"targets\.upstream does not list its models\. Name the model with"
    ):
        chosen("", [answer(404, {})], options="yes")
    choice = chosen("", [answer(404, {})], options="yes", model="m")
    assert (choice.model, choice.warnings) == ("m", ())


def test_an_upstream_that_cannot_be_reached_is_a_warning() -> None:
    target = '[targets.mine]\nbase_url = "http://127.0.0.1:9/v1"\n[models.m]\ntarget = "mine"'
    choice = run(choose_model(from_file(target)))
    assert choice.model == "m"
    assert len(choice.warnings) == 1
    assert choice.warnings[0].startswith("targets.mine cannot be reached")


def test_a_refused_key_is_a_warning_but_a_missing_key_is_an_error() -> None:
    choice = chosen("", [answer(401, {})], options="MY_KEY", model="m")
    assert choice.warnings == ("targets.upstream refused the key in MY_KEY (HTTP 401): check its value",)
    with pytest.raises(OptionError, match=r"targets\.upstream requires a key: add --api-key-env NAME"):
        chosen("", [answer(401, {})], options="no key", model="m")


def test_a_missing_key_of_a_vendor_is_found_without_a_request() -> None:
    name, row = next(each for each in PRESETS.items() if each[1].key_variable and "{" not in each[1].base_url)
    settings = with_own_keys(settings_from(ServeOptions(preset=name), None, {}), name)
    assert not any(each.pass_key for each in settings.targets)
    with pytest.raises(OptionError, match=f"targets.{name} requires a key: set {row.key_variable}"):
        run(choose_model(settings, target=name, model="m", limit=0.0))


def test_a_fallback_with_a_key_is_enough() -> None:
    text = """
[targets.first]
base_url = "URL"
[targets.second]
base_url = "URL"
keys = ["MY_KEY"]
[models.m]
targets = ["first", "second"]
"""
    choice = chosen(text, [answer(401, {})])
    assert [each.name for each in choice.targets] == ["first", "second"]
    assert len(choice.warnings) == 2
    with pytest.raises(OptionError, match=r"targets\.first requires a key"):
        chosen(text.replace('targets = ["first", "second"]', 'target = "first"'), [answer(401, {})])
