"""`[models]` and `[aliases]` in `penstock.toml`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from penstock.gateway.settings import RouteStep
from tests.effort import examples
from tests.gateway.config.reading import LOCAL, read, read_or_errors


def test_the_upstream_name_of_a_model_is_the_default_of_its_steps() -> None:
    text = LOCAL + '[targets.b]\npreset = "ollama"\n[models.m]\nmodel = "up"\ntargets = ["local", "b/x/y:z"]'
    assert read(text).models["m"].steps == (RouteStep("local", "up"), RouteStep("b", "x/y:z"))


def test_a_model_without_a_target_uses_the_passthrough() -> None:
    text = f'passthrough = "local"\n{LOCAL}[models.m]\nlimits = "window:8k"'
    assert read(text).models["m"].steps == (RouteStep("local"),)


def test_an_alias_of_an_alias_is_resolved() -> None:
    text = LOCAL + '[models.m]\ntarget = "local"\n[aliases]\na = "b"\nb = "m"\n"*" = "a"\nd = "demo"'
    assert read(text).aliases == {"a": "m", "b": "m", "*": "m", "d": "demo"}


def test_with_a_passthrough_an_alias_may_lead_anywhere() -> None:
    text = f'passthrough = "local"\ndefault_model = "any/thing"\n{LOCAL}[aliases]\na = "some/model"'
    settings = read(text)
    assert settings.aliases == {"a": "some/model"}
    assert settings.default_model == "any/thing"


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from("abcdefg"), max_size=7))
@effort(max_examples=examples(200))
def test_aliases_never_lead_in_circles(aliases: dict[str, str]) -> None:
    text = f'{LOCAL}[models.g]\ntarget = "local"\n[aliases]\n'
    text += "".join(f'{name} = "{target}"\n' for name, target in aliases.items() if name != "g")
    settings, found = read_or_errors(text)
    assert settings is None or set(settings.aliases.values()) <= {"g"}
    assert all("refers to itself" in each.message or "no model" in each.message for each in found)


TWO = LOCAL + '[targets.b]\npreset = "ollama"\n'


def test_a_plain_list_is_a_fallback_chain() -> None:
    route = read(f'{TWO}[models.m]\ntargets = ["local", "b", "local/x"]').models["m"]
    assert route.groups == [[RouteStep("local")], [RouteStep("b")], [RouteStep("local", "x")]]


def test_a_list_inside_is_a_group_with_weights() -> None:
    text = """[models.m]
model = "up"
targets = ["b/first", [{ target = "local", weight = 2 }, "b/x/y", { target = "b", weight = 0 }], ["local/z"]]
"""
    assert read(TWO + text).models["m"].groups == [
        [RouteStep("b", "first")],
        [
            RouteStep("local", "up", 2.0),
            RouteStep("b", "x/y", 1.0, is_alternative=True),
            RouteStep("b", "up", 0.0, is_alternative=True),
        ],
        [RouteStep("local", "z")],
    ]


def test_every_error_of_a_group_is_reported() -> None:
    text = '[models.m]\ntargets = [["c", { target = "d", weight = -1 }], "local", ["local"]]\n'
    settings, found = read_or_errors(TWO + text)
    assert settings is None
    assert [each.message.partition(": ")[0] for each in found] == [
        "models.m.targets[0][0]",
        "models.m.targets[0][1].weight",
        "models.m.targets[0][1]",
        "models.m.targets[2][0]",
    ]
