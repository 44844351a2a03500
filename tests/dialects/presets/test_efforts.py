"""The table of reasoning efforts."""

from __future__ import annotations

import pytest

from penstock.dialects.presets.efforts import EFFORTS, SCALE, nearest


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
