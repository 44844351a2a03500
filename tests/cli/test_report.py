"""The reports of `penstock check` for people and programs: lines, JSON and the timeline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.cli import OK, PROBLEM, USAGE, UsageError
from tests.cli import streams
from tests.cli.check_runs import DOUBLED, FROM_RULES, LAWFUL, check_run, checked


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: capsys.readouterr()


def test_a_lawful_stream_has_one_line(output: Any) -> None:
    assert checked(check_run(), LAWFUL[:100], LAWFUL[100:]) == OK
    assert output() == ("lawful: 11 events\n", "")


def test_a_violation_names_rule_event_and_affected_clients(output: Any) -> None:
    assert checked(check_run(), DOUBLED) == PROBLEM
    first, *_, last = output().out.splitlines()
    assert first.startswith("call.duplicate  event 4: two items have call id 'call_fc_1'")
    assert f"(breaks: {FROM_RULES}; " in first
    assert last == "3 violations in 9 events"


def test_violations_of_the_end_are_marked(output: Any) -> None:
    assert checked(check_run(), streams.as_sse(streams.hello()[:-1], done=False)) == PROBLEM
    assert "terminal.missing  at the end: " in output().out


def test_json_is_one_object_without_the_secret(output: Any) -> None:
    assert checked(check_run("json"), LAWFUL) == OK
    assert json.loads(output().out) == {"lawful": True, "events": 11, "violations": []}
    assert checked(check_run("json", secret="call_fc_1"), DOUBLED) == PROBLEM
    found = json.loads(output().out)
    assert (found["lawful"], found["events"]) == (False, 9)
    assert found["violations"][0]["rule"] == "call.duplicate"
    assert "'[key]'" in found["violations"][0]["message"]
    assert "call_fc_1" not in json.dumps(found)


def test_tolerant_hides_what_clients_tolerate(output: Any) -> None:
    without_done = streams.as_sse(streams.hello(), done=False)
    assert checked(check_run(), without_done) == PROBLEM
    assert "known clients tolerate 1 of 1: --tolerant hides those" in output().err
    assert checked(check_run(tolerant=True), without_done) == OK


def test_a_violation_that_is_not_in_an_event_is_reported(output: Any) -> None:
    checks = check_run()
    with checks.source("http://127.0.0.1", is_file=False) as source:
        checks.report(source, "http.status", "HTTP 500: \x1b[2Jbroken", "the answer")
    assert checks.finish() == PROBLEM
    assert output().out == "http.status  the answer: HTTP 500: \\x1b[2Jbroken\n1 violation in 0 events\n"


def test_the_timeline_marks_violations(output: Any) -> None:
    assert checked(check_run("timeline"), DOUBLED) == PROBLEM
    text = output().out
    assert text.index("call.duplicate") < text.index("\nevent ") < text.index("\nviolations ")
    assert checked(check_run("timeline"), LAWFUL) == OK
    assert output().out.startswith("event ")


def test_every_stream_has_its_own_timeline(output: Any) -> None:
    checks = check_run("timeline", is_named=True)
    for name in ("one", "two"):
        with checks.source(name, is_file=True) as source:
            checks.stream(source, [LAWFUL], "auto")
    checks.finish()
    one, two = output().out.removesuffix("2 files: 2 lawful\n").split("one: lawful: 11 events\n")
    assert two == f"{one}two: lawful: 11 events\n"


def three(format: str) -> int:
    """Check a lawful file, an unlawful one, and one that cannot be read."""
    checks = check_run(format, is_named=True, secret="s3cret")
    for name, stream in (("good.sse", LAWFUL), ("bad\x1b.sse", DOUBLED)):
        with checks.source(name, is_file=True) as source:
            checks.stream(source, [stream], "auto")
    with checks.source("gone.sse", is_file=True):
        raise UsageError("cannot read gone.sse: s3cret\x1b")
    return checks.finish()


def test_lines_about_several_files_name_the_file_and_the_line(output: Any) -> None:
    assert three("text") == USAGE
    out, err = output()
    good, first, *_, bad, last = out.splitlines()
    assert good == "good.sse: lawful: 11 events"
    assert first.startswith("bad\\x1b.sse:13: call.duplicate  event 4: two items")
    assert bad == "bad\\x1b.sse: 3 violations in 9 events"
    assert last == "3 files: 1 lawful, 1 unlawful, 1 not checked"
    assert err == "penstock: cannot read gone.sse: [key]\\u001b\n"


def test_json_about_several_files_is_one_object_with_a_list(output: Any) -> None:
    assert three("json") == USAGE
    out, err = output()
    result = json.loads(out)
    good, bad, gone = result.pop("files")
    assert result == {"lawful": False}
    assert good == {"file": "good.sse", "lawful": True, "events": 11, "violations": []}
    assert (bad["file"], bad["lawful"], bad["events"]) == ("bad\x1b.sse", False, 9)
    assert [(each["rule"], each["line"]) for each in bad["violations"]] == [
        ("call.duplicate", 13),
        ("item.done-missing", 25),
        ("terminal.output", 25),
    ]
    assert (gone["file"], gone["lawful"], gone["violations"]) == ("gone.sse", None, [])
    assert gone["error"] == "cannot read gone.sse: [key]\x1b"
    assert err == "penstock: cannot read gone.sse: [key]\\u001b\n"


def test_json_about_one_source_that_cannot_be_checked_is_only_a_message(output: Any) -> None:
    checks = check_run("json")
    with checks.source("gone.sse", is_file=True):
        raise UsageError("cannot read gone.sse")
    assert checks.finish() == USAGE
    assert output() == ("", "penstock: cannot read gone.sse\n")


def test_standard_input_has_no_lines(output: Any) -> None:
    checks = check_run(is_named=True)
    assert checked(checks, DOUBLED, name="standard input", is_file=False) == PROBLEM
    assert output().out.startswith("standard input: call.duplicate  event 4: ")
    assert checked(check_run("json", is_named=True), DOUBLED, is_file=False) == PROBLEM
    [found] = json.loads(output().out)["files"]
    assert {each["line"] for each in found["violations"]} == {None}
