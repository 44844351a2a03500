"""Stop reasons of Anthropic."""

from __future__ import annotations

import pytest

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.finishes import FINISHES
from penstock.stream.deltas import (
    DiagnosticDelta,
    FinishDelta,
    FinishReason,
)
from tests.dialects.anthropic.streams import deltas_of, finish, start
from tests.dialects.reading_proof import response


@pytest.mark.parametrize(("stop_reason", "reason"), FINISHES.items())
def test_every_stop_reason_has_a_finish_reason(stop_reason: str, reason: FinishReason) -> None:
    assert FinishDelta(reason) in deltas_of([start(), *finish(stop_reason)])


def test_an_unknown_stop_reason_is_reported_by_name() -> None:
    deltas = deltas_of([start(), *finish("bored")])
    assert any(isinstance(delta, DiagnosticDelta) and "'bored'" in delta.message for delta in deltas)


def test_the_details_of_a_refusal_are_reported() -> None:
    chunks = [start(), *finish("refusal")]
    chunks[1]["delta"]["stop_details"] = {"category": "cyber", "explanation": "no"}
    (diagnostic,) = response(DIALECT, chunks)["diagnostics"]
    assert "cyber: no" in diagnostic["message"]
