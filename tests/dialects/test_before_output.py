"""Deltas before the first output are held back, and an answer without any is judged by its beginning."""

from __future__ import annotations

import pytest

from penstock.dialects.before_output import BeforeOutput
from penstock.dialects.recognition import MOST_BYTES, MOST_FRAMES, advice
from penstock.errors import OpenResponsesError, ProtocolError, RateLimitError
from penstock.protocol.errors import Diagnostic
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    TextDelta,
    UsageDelta,
)
from tests.dialects.format_samples import AWS_EVENT, frames

FINISH = FinishDelta(FinishReason.STOP)


def reading(dialect: str = "gemini", secret: str = "") -> BeforeOutput:
    """The beginning of an answer that is read in this dialect."""

    def mask(deltas: list[Delta]) -> list[Delta]:
        return [
            ErrorDelta(each.code, each.message.replace(secret, "[key]"))
            if secret and isinstance(each, ErrorDelta)
            else each
            for each in deltas
        ]

    before = BeforeOutput()
    before.prepare([Diagnostic(code="field_dropped", message="seed")])
    before.open(dialect, advice, mask)
    return before


def test_deltas_are_held_back_until_output_begins() -> None:
    before = reading()
    usage = UsageDelta(input_tokens=3)
    assert not before.hold([usage], (), is_answered=False)
    assert before.hold([TextDelta("Hi")], (), is_answered=False)
    assert before.release() == [DiagnosticDelta("field_dropped", "seed"), usage, TextDelta("Hi")]
    assert before.release() == []


def test_the_next_attempt_discards_what_the_last_one_held_back() -> None:
    before = reading()
    before.hold([UsageDelta(input_tokens=3)], (), is_answered=False)
    before.prepare([])
    assert before.release() == []


def test_a_finish_that_is_held_back_is_known() -> None:
    before = reading()
    assert not before.has_finish()
    before.hold([FINISH], (), is_answered=False)
    assert before.has_finish()
    before.release()
    assert not before.has_finish()


def test_an_error_before_output_is_raised_with_its_own_kind() -> None:
    with pytest.raises(RateLimitError, match="slow down"):
        reading().hold([ErrorDelta("rate_limit_exceeded", "slow down")], (), is_answered=False)


def test_what_follows_an_error_is_not_read_whether_or_not_it_arrived_together() -> None:
    usage, late = UsageDelta(input_tokens=3), UsageDelta(output_tokens=4)
    before = reading()
    with pytest.raises(RateLimitError):
        before.hold([usage, ErrorDelta("rate_limit_exceeded", "slow down"), late], (), is_answered=False)
    assert before.release() == [DiagnosticDelta("field_dropped", "seed"), usage]


def test_an_answer_that_ended_in_another_format_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match=r"looks like Chat Completions.*set the dialect to \"chat\""):
        reading().hold([], frames("chat"), is_answered=True)


def test_a_missing_end_is_explained_by_the_other_format() -> None:
    with pytest.raises(ProtocolError, match="looks like Chat Completions"):
        reading().hold([ErrorDelta("upstream_empty", "no end")], frames("chat"), is_answered=True)


def test_an_answer_in_another_format_is_refused_once_there_is_enough_of_it() -> None:
    before = reading()
    (frame,) = frames("chat")[:1]
    assert not before.hold([], [frame] * (MOST_FRAMES - 1), is_answered=False)
    with pytest.raises(ProtocolError, match="looks like Chat Completions"):
        before.hold([], [frame], is_answered=False)


def test_bytes_without_a_frame_are_refused_once_there_is_enough_of_them() -> None:
    before = reading()
    before.add_bytes(AWS_EVENT)
    with pytest.raises(ProtocolError, match="binary event stream"):
        before.add_bytes(bytes(MOST_BYTES))


def test_a_finish_that_the_reader_only_implied_does_not_make_an_answer_readable() -> None:
    unknown = [Frame(None, '{"water": "flows"}')]
    assert not reading().hold([FINISH], unknown, is_answered=True)
    before = reading()
    before.has_implied_finish = True
    with pytest.raises(ProtocolError, match=r"nothing in the answer could be read.*water"):
        before.hold([FINISH], unknown, is_answered=True)


def test_the_shown_beginning_of_an_answer_is_masked() -> None:
    with pytest.raises(OpenResponsesError, match=r"\[key\]") as caught:
        reading(secret="sk-mill-1").hold([], [Frame(None, '{"echo": "sk-mill-1"}')], is_answered=True)
    assert "sk-mill-1" not in caught.value.message


def test_the_beginning_is_not_kept_after_the_first_output() -> None:
    before = reading()
    before.hold([TextDelta("Hi")], (), is_answered=False)
    before.forget_answer()
    assert not before.add_frames(frames("chat") * MOST_FRAMES)
