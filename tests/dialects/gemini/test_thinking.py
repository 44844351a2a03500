"""How each Gemini model is asked to think."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.gemini.thinking import EFFORTS, traits_of
from penstock.dialects.plan import Quirks, Target
from tests.dialects.gemini.rendered_requests import config, rendered
from tests.dialects.render_cases import (
    dropped,
)


@pytest.mark.parametrize(
    ("model", "effort", "expected", "is_reported"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}, False),
        ("gemini-2.5-flash-lite", "minimal", {"thinkingBudget": 512}, False),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}, True),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768}, False),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}, True),
        ("gemini-3-pro-preview", "low", {"thinkingLevel": "LOW"}, False),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL"}, False),
        ("gemini-3.1-flash-lite", "none", {"thinkingLevel": "MINIMAL"}, True),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}, True),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}, False),
        ("gemini-4-argon", "xhigh", {"thinkingLevel": "HIGH"}, True),
        ("gemini-4-argon", "strange", {"thinkingLevel": "MEDIUM"}, True),
        ("gemini-2.0-flash", "high", None, True),
        ("gemini-2.0-flash", "none", None, False),
        ("tunedModels/x", "high", None, True),
    ],
)
def test_an_effort_is_sent_in_the_form_that_the_model_accepts(
    model: str, effort: str, expected: Any, is_reported: bool
) -> None:
    result = rendered({"reasoning": {"effort": effort}}, model)
    assert result.body.get("generationConfig", {}).get("thinkingConfig") == expected
    assert bool(result.diagnostics) is is_reported


def test_every_row_has_every_effort() -> None:
    efforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}
    assert {row: set(levels) for row, levels in EFFORTS.items()} == dict.fromkeys(EFFORTS, efforts)


def test_the_effort_quirk_overrides_the_row_of_the_model() -> None:
    assert traits_of(Target(model="gemini-4-argon", quirks=Quirks(effort="budget"))).effort == "budget"


def test_a_summary_includes_thoughts() -> None:
    assert config({"reasoning": {"summary": "auto"}})["thinkingConfig"] == {"includeThoughts": True}
    assert dropped(rendered({"reasoning": {"summary": "auto"}}, "gemini-2.0-flash")) == {"reasoning.summary"}
