"""One run of `penstock check`: hints, sources that cannot be checked, and the exit code."""

from __future__ import annotations

import pytest

from penstock.cli import OK, PROBLEM, USAGE
from tests.cli.check_runs import DOUBLED, LAWFUL, check_run, checked


def test_a_document_is_a_problem_of_its_source() -> None:
    checks = check_run("json", is_named=True)
    with checks.source("answer.json", is_file=True) as source:
        checks.stream(source, [b"{\n}"], "auto")
    assert source.problem.startswith("answer.json: this is one JSON document")
    assert checks.finish() == USAGE


def test_input_without_events_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(check_run(), b"<html>no stream here</html>\n\n") == PROBLEM
    assert "no events found in 29 bytes, read as sse. Is it a stream?" in capsys.readouterr().err
    assert checked(check_run(is_named=True), b"<html>\n\n") == PROBLEM
    assert "penstock: answer.sse: no events found in 8 bytes" in capsys.readouterr().err
    assert checked(check_run(), b"") == PROBLEM  # nothing to guess about an empty input
    assert "no events found" not in capsys.readouterr().err


def test_a_source_that_cannot_be_checked_decides_the_exit_code() -> None:
    codes = {(): OK, ("bad",): PROBLEM, ("gone",): USAGE, ("gone", "bad"): USAGE, ("bad", "gone"): USAGE}
    for names, code in codes.items():
        checks = check_run("json", is_named=True)
        for name in ("good", *names):
            with checks.source(name, is_file=True) as source:
                document = {"good": LAWFUL, "bad": DOUBLED, "gone": b"[{}]"}[name]
                checks.stream(source, [document], "auto")
        assert checks.finish() == code
