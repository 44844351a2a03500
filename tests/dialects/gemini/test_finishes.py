"""Finish reasons of Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.finishes import blocked, finish, name_of
from penstock.dialects.plan import Target
from penstock.sse import Frame
from penstock.stream.deltas import (
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
)
from tests.dialects.gemini.streams import chunk
from tests.dialects.recording_checks import (
    last,
    plan,
    read,
    response,
)
from tests.dialects.recordings import translate

ENDS = [
    ("STOP", "", "completed", None),
    (1, "", "completed", None),
    ("MAX_TOKENS", "", "incomplete", "max_output_tokens"),
    (2, "", "incomplete", "max_output_tokens"),
    *(
        (name, "", "incomplete", "content_filter")
        for name in ("SAFETY", "RECITATION", "BLOCKLIST", "LANGUAGE")
    ),
    *((name, "", "incomplete", "content_filter") for name in ("PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")),
    (8, "", "incomplete", "content_filter"),
    ("MALFORMED_FUNCTION_CALL", "", "failed", "server_error"),
    (10, "", "failed", "server_error"),
    (10, "vertex", "incomplete", "content_filter"),
    (9, "vertex", "failed", "server_error"),
    ("UNEXPECTED_TOOL_CALL", "", "failed", "server_error"),
    ("MISSING_THOUGHT_SIGNATURE", "", "failed", "invalid_request"),
    ("OTHER", "", "completed", None),
    ("SOMETHING_NEW", "", "completed", None),
    (99, "", "completed", None),
    ("FINISH_REASON_UNSPECIFIED", "", "failed", "upstream_truncated"),
    (0, "", "failed", "upstream_truncated"),
    (True, "", "failed", "upstream_truncated"),
    ({}, "", "failed", "upstream_truncated"),
]


@pytest.mark.parametrize(("reason", "vendor", "status", "expected"), ENDS)
def test_every_finish_reason_has_an_outcome(
    reason: Any, vendor: str, status: str, expected: Any
) -> None:  # quirk G2, quirk G10
    frame = Frame(None, json.dumps(chunk({"text": "x"}, finish=reason, finishMessage="said so")))
    snapshot = last(translate(DIALECT, plan("gemini", vendor), [frame]))
    code = (snapshot["error"] or {}).get("code") or (snapshot["incomplete_details"] or {}).get("reason")
    assert (snapshot["status"], code) == (status, expected)
    if status == "failed" and expected != "upstream_truncated":
        assert snapshot["error"]["message"] == "said so"


def test_an_unknown_finish_reason_is_reported_by_name() -> None:
    deltas = read(DIALECT, [chunk(finish="SOMETHING_NEW")])
    assert deltas[0] == FinishDelta(FinishReason.STOP)
    assert deltas[1] == DiagnosticDelta("unknown_finish", "the upstream stopped with SOMETHING_NEW")


def test_a_blocked_prompt_is_a_content_filter() -> None:  # quirk G10
    refused = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}
    snapshot = response(DIALECT, [refused])
    assert snapshot["incomplete_details"] == {"reason": "content_filter"}
    assert "SAFETY: no" in snapshot["diagnostics"][0]["message"]


@pytest.mark.parametrize(
    ("reason", "vendor", "name"),
    [
        ("STOP", "", "STOP"),
        (1, "", "STOP"),
        (13, "", "TOO_MANY_TOOL_CALLS"),
        (14, "", "14"),
        (-1, "", "-1"),
        (9, "vertex", "MALFORMED_FUNCTION_CALL"),
        ("FINISH_REASON_UNSPECIFIED", "", ""),
        (0, "", ""),
        (None, "", ""),
        (True, "", ""),
        (1.0, "", ""),
    ],
)
def test_a_finish_reason_is_a_name_or_a_number_of_the_vendor(reason: Any, vendor: str, name: str) -> None:
    assert name_of(reason, Target(model="m", vendor=vendor)) == name


def test_a_failure_without_a_message_names_the_reason() -> None:
    (error,) = finish("MALFORMED_FUNCTION_CALL", "")
    assert isinstance(error, ErrorDelta)
    assert "MALFORMED_FUNCTION_CALL" in error.message
    (error,) = finish("MISSING_THOUGHT_SIGNATURE", "sign it")
    assert error == ErrorDelta("invalid_request", "sign it", type="invalid_request")


@pytest.mark.parametrize(("message", "expected"), [("", "SAFETY"), ("too hot", "SAFETY: too hot")])
def test_the_vendors_message_is_part_of_the_diagnostic(message: str, expected: str) -> None:
    for deltas in (finish("SAFETY", message), blocked("SAFETY", message)):
        assert deltas[0] == FinishDelta(FinishReason.CONTENT_FILTER)
        assert isinstance(deltas[1], DiagnosticDelta)
        assert deltas[1].message.endswith(f" {expected}")


def test_a_normal_stop_has_no_diagnostic() -> None:
    assert finish("STOP", "") == [FinishDelta(FinishReason.STOP)]
