"""The report of `penstock check`: lines, JSON and the timeline."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from penstock.cli import OK, PROBLEM
from penstock.cli.report import Check
from penstock.cli.terminal import Terminal
from tests.cli import streams


def options(**changes: Any) -> argparse.Namespace:
    values = {"json": False, "timeline": False, "accent": "openresponses", "tolerant": False}
    return argparse.Namespace(**{**values, **changes})


def checked(*chunks: bytes, transport: str = "auto", secret: str = "", **changes: Any) -> int:
    check = Check(options(**changes), Terminal(secret=secret))
    check.stream(chunks, transport)
    return check.verdict()


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: capsys.readouterr()


LAWFUL = streams.as_sse(streams.hello())
DOUBLED = streams.as_sse(streams.announced_twice())


def test_a_lawful_stream_has_one_line(output: Any) -> None:
    assert checked(LAWFUL[:100], LAWFUL[100:]) == OK
    assert output() == ("lawful: 11 events\n", "")


def test_a_violation_names_rule_event_and_affected_clients(output: Any) -> None:
    assert checked(DOUBLED) == PROBLEM
    first, *_, last = output().out.splitlines()
    assert first.startswith("call.duplicate  event 4: two items have call id 'call_fc_1'")
    assert "(breaks: Codex and the AI SDK run the tool twice; " in first
    assert last == "3 violations in 9 events"


def test_violations_of_the_end_are_marked(output: Any) -> None:
    assert checked(streams.as_sse(streams.hello()[:-1], done=False)) == PROBLEM
    assert "terminal.missing  at the end: " in output().out


def test_json_is_one_object_without_the_secret(output: Any) -> None:
    assert checked(LAWFUL, json=True) == OK
    assert json.loads(output().out) == {"lawful": True, "events": 11, "violations": []}
    assert checked(DOUBLED, json=True, secret="call_fc_1") == PROBLEM
    found = json.loads(output().out)
    assert (found["lawful"], found["events"]) == (False, 9)
    assert found["violations"][0]["rule"] == "call.duplicate"
    assert "'[key]'" in found["violations"][0]["message"]
    assert "call_fc_1" not in json.dumps(found)


def test_tolerant_hides_what_clients_tolerate(output: Any) -> None:
    without_done = streams.as_sse(streams.hello(), done=False)
    assert checked(without_done) == PROBLEM
    assert "known clients tolerate 1 of 1: --tolerant hides those" in output().err
    assert checked(without_done, tolerant=True) == OK


def test_a_violation_that_is_not_in_an_event_is_reported(output: Any) -> None:
    check = Check(options(), Terminal())
    check.report("http.status", "HTTP 500: \x1b[2Jbroken", "the answer")
    assert check.verdict() == PROBLEM
    assert output().out == "http.status  the answer: HTTP 500: \\x1b[2Jbroken\n1 violation in 0 events\n"


def test_input_without_events_gets_a_hint(output: Any) -> None:
    assert checked(b"<html>no stream here</html>\n\n") == PROBLEM
    assert "no events found in 29 bytes, read as sse. Is it a stream?" in output().err
    assert checked(b"") == PROBLEM  # nothing to guess about an empty input
    assert "no events found" not in output().err


def test_a_line_over_the_limit_ends_the_reading(output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.capture.Lines.__init__.__defaults__", (50,))
    assert checked(b'{"a": 1}\n', b"x" * 60, transport="ndjson") == PROBLEM
    assert "read.limit  event 1: " in output().out


def test_the_timeline_marks_violations(output: Any) -> None:
    assert checked(DOUBLED, timeline=True) == PROBLEM
    text = output().out
    assert text.index("call.duplicate") < text.index("\nevent ") < text.index("\nviolations ")
    assert checked(LAWFUL, timeline=True) == OK
    assert output().out.startswith("event ")
