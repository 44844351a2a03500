"""The table of reasoning efforts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.presets import target_for
from penstock.dialects.presets.efforts import EFFORTS, SCALE, nearest
from penstock.dialects.registry import rendered_dialect
from penstock.dialects.toolset import plan_for
from penstock.protocol.request import CreateResponse, ReasoningConfig


def test_every_row_supports_every_effort_or_a_nearest_one() -> None:
    assert all(nearest(row, effort) in EFFORTS[row] for row in EFFORTS for effort in SCALE)


def test_every_row_uses_only_efforts_of_the_scale() -> None:
    assert {effort for row in EFFORTS.values() for effort in row} <= set(SCALE)


@pytest.mark.parametrize(
    ("row", "effort", "expected"),
    [
        ("openai", "minimal", "minimal"),
        ("openai", "max", "max"),
        ("openai", "ultra", "max"),
        ("openrouter", "ultra", "xhigh"),
        ("deepseek", "ultra", "max"),
        ("low_to_high", "ultra", "high"),
        ("low_to_high", "none", "low"),
        ("low_to_high", "max", "high"),
        ("none_to_high", "minimal", "low"),  # as near as `none`: the higher one is the lesser harm
        ("openai", "unknown", None),
        ("no such row", "low", None),
        ("", "low", None),
    ],
)
def test_the_nearest_effort_of_a_row(row: str, effort: str, expected: str | None) -> None:
    assert nearest(row, effort) == expected


@pytest.mark.parametrize("row", ["thinking", "qwen", "template"])
def test_a_switch_is_off_for_none_and_minimal_only(row: str) -> None:
    off = EFFORTS[row]["none"]
    assert [effort for effort in SCALE if EFFORTS[row][effort] == off] == ["none", "minimal"]


THINKING: list[tuple[str, str, dict[str, dict[str, Any]]]] = [
    # preset and model, then the fields of the request for each effort
    (
        "anthropic",
        "claude-sonnet-4-5",
        {
            "low": {"thinking": {"type": "enabled", "budget_tokens": 4096}},
            "medium": {"thinking": {"type": "enabled", "budget_tokens": 10_000}},
            "high": {"thinking": {"type": "enabled", "budget_tokens": 16_000}},
        },
    ),
    (
        "gemini",
        "gemini-2.5-pro",
        {
            effort: {"generationConfig": {"thinkingConfig": {"thinkingBudget": budget}}}
            for effort, budget in {"low": 2048, "medium": 8192, "high": 16_384}.items()
        },
    ),
    (
        "xai",
        "grok-4.3",
        {effort: {"reasoning_effort": effort} for effort in ("low", "medium", "high")},
    ),
    (
        "deepseek",
        "deepseek-reasoner",
        {
            effort: {"thinking": {"type": "enabled"}, "reasoning_effort": sent}
            for effort, sent in {"low": "low", "medium": "high", "high": "high"}.items()
        },
    ),
    (
        "vercel",
        "xai/grok-4-fast-reasoning",
        {effort: {"reasoning": {"effort": effort}} for effort in ("low", "medium", "high")},
    ),
]


@pytest.mark.parametrize(("preset", "model", "expected"), THINKING, ids=[row[0] for row in THINKING])
def test_low_medium_and_high_reach_the_vendor_in_its_own_form(
    preset: str, model: str, expected: dict[str, dict[str, Any]]
) -> None:
    target = target_for(model, preset)
    for effort, fields in expected.items():
        request = CreateResponse(model=model, input="Think.", reasoning=ReasoningConfig(effort=effort))
        body = rendered_dialect(target.dialect).render(plan_for(request, target)).body
        assert _contains(body, fields), (effort, body)


def _contains(body: Any, fields: dict[str, Any]) -> bool:
    return all(
        _contains(body.get(name), value) if isinstance(value, dict) else body.get(name) == value
        for name, value in fields.items()
    )
