"""The reports of `penstock check` for GitHub Actions, and for CI servers that read JUnit XML."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.cli import OK, PROBLEM, USAGE, UsageError
from tests.cli.check_runs import DOUBLED, FROM_RULES, LAWFUL, check_run, checked

HOSTILE = "a\n::error file=x::y\r%0A,b:c::]]></failure><x a='\"'>&\x00\x1b\ud800\ufffe\u2028水"
"""Text that ends commands, properties, elements and attributes, and characters that XML cannot contain."""

in_one_place = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def no_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: capsys.readouterr().out


def run_with(format: str, text: str, secret: str = "") -> int:
    """Report `text` as a name, a message and a problem."""
    checks = check_run(format, secret=secret)
    with checks.source(text, is_file=True) as source:
        checks.report(source, "http.status", text, "the answer")
    with checks.source("broken", is_file=True):
        raise UsageError(text)
    return checks.finish()


# GitHub Actions


def commands(printed: str) -> list[tuple[str, dict[str, str], str]]:
    """Read workflow commands as GitHub's runner does: name, properties, message."""
    found = []
    for line in printed.splitlines():
        command = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
        assert command, line
        pairs = (pair.partition("=") for pair in command[2].split(","))
        properties = {name: unquote(value) for name, _, value in pairs}
        found.append((command[1], properties, unquote(command[3])))
    return found


def test_github_gets_an_annotation_for_each_violation_and_a_summary(output: Any) -> None:
    assert checked(check_run("github"), DOUBLED) == PROBLEM
    first, *_, last = commands(output())
    assert first[:2] == ("error", {"file": "answer.sse", "line": "13", "title": "call.duplicate"})
    assert first[2].startswith("event 4: two items have call id 'call_fc_1'")
    assert FROM_RULES in first[2]
    assert last == ("notice", {"title": "penstock check"}, "3 violations in 9 events")


def test_github_gets_only_a_summary_of_a_lawful_stream(output: Any) -> None:
    assert checked(check_run("github"), LAWFUL) == OK
    assert output() == "::notice title=penstock check::lawful: 11 events\n"


def test_an_annotation_without_a_file_names_its_source(output: Any) -> None:
    assert checked(check_run("github"), DOUBLED, name="standard input", is_file=False) == PROBLEM
    command, properties, message = commands(output())[0]
    assert (command, properties) == ("error", {"title": "call.duplicate"})
    assert message.startswith("standard input: event 4: ")


def test_paths_are_relative_to_the_workspace_of_github(
    output: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    files = {"a.sse": "recordings/a.sse", str(folder / "b.sse"): "recordings/b.sse", "/c.sse": "/c.sse"}
    for name, shown in files.items():
        checked(check_run("github"), DOUBLED, name=name)
        assert commands(output())[0][1]["file"] == shown


def test_github_gets_hints_and_unreadable_files_as_annotations(output: Any) -> None:
    assert checked(check_run("github"), b"<html>\n\n") == PROBLEM
    assert ("warning", "no events found") in [(each, text[:15]) for each, _, text in commands(output())]
    assert run_with("github", "cannot read it") == USAGE
    *_, problem, last = commands(output())
    assert problem == ("error", {"file": "broken", "title": "not checked"}, "cannot read it")
    assert last[2] == "2 files: 1 unlawful, 1 not checked"


@example(HOSTILE)
@example("100%0A,a:b::c%2C")
@given(st.text(min_size=1))
@in_one_place
def test_no_text_of_a_stream_is_a_command(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run_with("github", text) == USAGE
    found = commands(capsys.readouterr().out)
    assert [command for command, _, _ in found] == ["error", "error", "notice"]
    assert list(found[0][1]) == ["file", "title"]
    if text.isprintable():
        assert found[0][1]["file"] == text
        assert found[0][2] == f"the answer: {text}"
        assert found[1][2] == text


# JUnit


def document(printed: str) -> Xml.Element:
    printed.encode("ascii")
    return Xml.fromstring(printed)


def test_junit_has_a_suite_with_a_case_for_each_file(output: Any) -> None:
    checks = check_run("junit", is_named=True)
    for name, stream in (("good.sse", LAWFUL), ("bad.sse", DOUBLED), ("gone.sse", b"[{}]")):
        with checks.source(name, is_file=True) as source:
            checks.stream(source, [stream], "auto")
    assert checks.finish() == USAGE
    root = document(output())
    [suite] = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    counts = {"name": "penstock check", "tests": "3", "failures": "1", "errors": "1"}
    assert {name: root.get(name) for name in counts} == {name: suite.get(name) for name in counts} == counts
    assert suite.get("skipped") == "0"
    good, bad, gone = suite
    for case, name in zip(suite, ("good.sse", "bad.sse", "gone.sse"), strict=True):
        assert case.tag == "testcase"
        assert (case.get("classname"), case.get("name"), case.get("file")) == ("penstock.check", name, name)
    for timed in (root, suite, *suite):
        assert re.fullmatch(r"\d+\.\d{3}", timed.get("time", ""))
    assert list(good) == []
    [failure] = bad
    assert (failure.tag, failure.get("type")) == ("failure", "call.duplicate")
    assert failure.get("message", "").startswith("call.duplicate  event 4: two items have call id")
    assert failure.get("message", "").endswith(" (and 2 more)")
    assert failure.text is not None
    lines = failure.text.splitlines()
    assert [line.partition("  ")[0] for line in lines] == [
        "line 13: call.duplicate",
        "line 25: item.done-missing",
        "line 25: terminal.output",
    ]
    assert FROM_RULES in lines[0]
    [error] = gone
    assert (error.tag, error.get("type")) == ("error", "not checked")
    assert error.get("message", "").startswith("gone.sse: this is one JSON document")
    assert error.text == error.get("message")


def test_junit_without_violations_has_no_failures(output: Any) -> None:
    assert checked(check_run("junit"), LAWFUL, name="standard input", is_file=False) == OK
    [suite] = document(output())
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    [case] = suite
    assert (case.get("name"), case.get("file"), list(case)) == ("standard input", None, [])


def test_a_file_that_breaks_off_is_an_error_with_its_violations(output: Any) -> None:
    checks = check_run("junit")
    with checks.source("a.sse", is_file=True) as source:
        checks.stream(source, [DOUBLED], "auto")
        raise UsageError("cannot read a.sse: Input/output error")
    assert checks.finish() == USAGE
    [suite] = document(output())
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    [[error]] = suite
    assert error.text is not None
    assert error.text.startswith("cannot read a.sse: Input/output error\nline 13: call.duplicate")


@example(HOSTILE)
@given(st.text(min_size=1))
@in_one_place
def test_no_text_of_a_stream_breaks_the_document(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run_with("junit", text) == USAGE
    [suite] = document(capsys.readouterr().out)
    first, second = suite
    assert [[each.tag for each in case] for case in suite] == [["failure"], ["error"]]
    if text.isprintable():
        assert first.get("name") == text
        assert first[0].text == first[0].get("message") == f"http.status  the answer: {text}"
        assert second[0].text == text


@pytest.mark.parametrize("format", ["github", "junit"])
def test_the_key_is_never_printed(output: Any, format: str) -> None:
    run_with(format, "the key is s3cret\n", secret="s3cret")
    printed = output()
    assert "s3cret" not in printed
    assert "the key is [key]" in printed
