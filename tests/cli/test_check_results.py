"""The results of checks in words."""

from __future__ import annotations

from penstock.captures.stream_check import LocatedViolation
from penstock.cli.check_results import CheckedSource, summary
from penstock.stream.checker.rules import RULES

BROKEN = LocatedViolation("call.duplicate", 4, "twice", "event 4", 13)
GOOD = CheckedSource("good", events=1)
BAD = CheckedSource("bad", events=9, violations=[BROKEN])
GONE = CheckedSource("gone", problem="cannot read gone")


def test_a_source_is_lawful_only_if_it_was_checked() -> None:
    assert [each.is_lawful for each in (GOOD, BAD, GONE)] == [True, False, False]


def test_one_source_has_a_verdict_and_several_are_counted() -> None:
    assert [summary([each]) for each in (GOOD, BAD, GONE)] == [
        "lawful: 1 event",
        "1 violation in 9 events",
        "not checked",
    ]
    assert summary([GOOD, GOOD]) == "2 files: 2 lawful"
    assert summary([BAD, GONE, BAD]) == "3 files: 2 unlawful, 1 not checked"


def test_what_a_violation_means_is_in_the_table_of_rules() -> None:
    assert BROKEN.breaks == RULES["call.duplicate"].breaks.rstrip(".") != ""
    assert not BROKEN.is_tolerated
    assert LocatedViolation("transport.done-missing", 1, "", "at the end").is_tolerated
    unknown = LocatedViolation("http.status", 0, "HTTP 500", "the answer")
    assert (unknown.breaks, unknown.is_tolerated) == ("", False)
