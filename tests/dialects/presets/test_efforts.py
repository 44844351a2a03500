"""The table of reasoning efforts."""

from __future__ import annotations

from penstock.dialects.presets.efforts import EFFORTS, SCALE, nearest


def test_every_row_has_an_answer_to_every_effort() -> None:
    assert all(nearest(row, effort) in EFFORTS[row] for row in EFFORTS for effort in SCALE)
