"""The JSON of `penstock explain --json`, and the lines of `--content`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock.explain.report import content_lines, report
from penstock.store.records import StoredItem
from tests.explain.archives import account_of, archive_of, fallback_turn
from tests.stored_turns import ANSWER, CONTENT, ERROR, PROMPT


def reported(**changes: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(msgspec.json.encode(report(account_of(fallback_turn(**changes)), {})))
    return result


def test_the_report_has_everything_but_content() -> None:
    found = reported(tenant="anna")
    assert [text for text in CONTENT if text in json.dumps(found)] == []
    assert (found["id"], found["tenant"], found["status"]) == ("resp_a", "anna", "completed")
    assert found["verdict"]["closer"] == "upstream"
    assert found["attempts"] == [
        {"target": "first", "model": "model-x", "status": 429, "code": "rate_limit_exceeded"},
        {"target": "second", "model": "model-y", "status": 200, "code": None},
    ]
    assert found["usage"]["input_tokens"] == 1_200
    assert found["timeline"][0] == {"at": 0.0, "what": "request to first for model-x (chat, 1.2 kB)"}
    assert "There were 2 attempts." in found["sentences"]
    assert (found["dropped_events"], found["diagnostics"]) == (0, [])
    assert "content" not in found


def test_a_turn_without_a_verdict_has_none_in_the_report() -> None:
    assert reported(verdict=None)["verdict"] is None


def test_content_has_input_output_and_error_messages() -> None:
    turn = fallback_turn(status="failed", response={"error": {"code": "x", "message": "the last error"}})
    account = account_of(turn)
    content = content_lines(archive_of(turn), account)
    assert content == {
        "input": [f"user: {PROMPT}"],
        "output": [f"assistant: {ANSWER}"],
        "failures": [ERROR, "the last error"],
    }
    assert report(account, content)["content"] == content


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"type": "function_call", "name": "look", "arguments": '{"a":1}'}, 'function_call look: {"a":1}'),
        ({"type": "function_call_output", "output": "rain"}, "function_call_output: rain"),
        (
            {"type": "reasoning", "summary": [{"text": "Hm."}], "content": [{"text": "So."}]},
            "reasoning: So. Hm.",
        ),
        ({"role": "user", "content": "plain"}, "user: plain"),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}, "message: No."),
        ({"type": "item_reference", "id": "msg_1"}, "item_reference"),
        ({}, "message"),
        ([1], "(unreadable item)"),
    ],
)
def test_an_item_is_one_line(item: Any, line: str) -> None:
    turn = fallback_turn()
    turn.opened = replace(turn.opened, input=(StoredItem("i", json.dumps(item).encode()),))
    assert content_lines(archive_of(turn), account_of(turn))["input"] == [line]


def test_an_item_that_is_not_json_does_not_hide_the_others() -> None:
    turn = fallback_turn()
    turn.opened = replace(turn.opened, input=(StoredItem("i", b"{"), *turn.opened.input))
    assert content_lines(archive_of(turn), account_of(turn))["input"] == [
        "(unreadable item)",
        f"user: {PROMPT}",
    ]
