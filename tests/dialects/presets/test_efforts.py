"""The table of reasoning efforts."""

from __future__ import annotations

from penstock.dialects.presets.efforts import EFFORTS, SCALE, nearest


def test_every_row_supports_every_effort_or_a_nearest_one() -> None:
    assert all(nearest(row, effort) in EFFORTS[row] for row in EFFORTS for effort in SCALE)
