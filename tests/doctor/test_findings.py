"""Which finding is acted on first."""

from __future__ import annotations

from penstock.doctor.findings import KINDS, Finding, Kind, Status, first_to_fix, has_problems


def finding(status: Status, kind: Kind, sentence: str = "") -> Finding:
    return Finding(id="x", kind=kind, status=status, sentence=sentence)


def test_the_most_urgent_problem_is_the_first_to_fix() -> None:
    problems = [finding("problem", kind) for kind in reversed(KINDS)]
    while problems:
        assert first_to_fix(problems) == problems[-1]
        problems.pop()


def test_any_problem_comes_before_any_warning() -> None:
    found = [finding("warning", "configuration"), finding("problem", "capability")]
    assert first_to_fix(found) == found[1]
    assert has_problems(found)
    assert not has_problems(found[:1])


def test_the_first_of_two_equals_and_nothing_to_fix() -> None:
    equals = [finding("warning", "key", "a"), finding("warning", "key", "b")]
    assert first_to_fix(equals) == equals[0]
    assert first_to_fix([finding("ok", "port"), finding("skipped", "key")]) is None
