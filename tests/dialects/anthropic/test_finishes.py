"""Stop reasons of Anthropic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.finishes import FINISHES, finish_diagnostics, finish_reason_of
from penstock.stream.deltas import (
    DiagnosticDelta,
    FinishDelta,
    FinishReason,
)
from tests.dialects.anthropic.streams import deltas_of, finish, start
from tests.dialects.recording_checks import response


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


@pytest.mark.parametrize("message", [{}, {"stop_reason": None}, {"stop_reason": ""}, {"stop_reason": 3}])
def test_a_message_without_a_stop_reason_has_no_finish(message: dict[str, Any]) -> None:
    assert finish_reason_of(message) is None


@pytest.mark.parametrize(
    ("message", "codes"),
    [
        ({"stop_reason": "end_turn"}, []),
        ({"stop_reason": "end_turn", "stop_details": {}}, []),
        ({"stop_reason": "refusal", "stop_details": {"category": "cyber"}}, ["stop_details"]),
        ({"stop_reason": "refusal", "stop_details": {"category": 1, "explanation": None}}, []),
        ({"stop_reason": "bored", "stop_details": {"explanation": "no"}}, ["unknown_finish", "stop_details"]),
    ],
)
def test_only_news_about_a_stop_is_reported(message: dict[str, Any], codes: list[str]) -> None:
    assert [diagnostic.code for diagnostic in finish_diagnostics(message)] == codes
