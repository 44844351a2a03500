"""Finish reasons of Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.dialects.gemini import DIALECT
from penstock.sse import Frame
from penstock.stream.deltas import (
    DiagnosticDelta,
    FinishDelta,
    FinishReason,
)
from tests.dialects.gemini.streams import chunk
from tests.dialects.reading_proof import (
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
