"""The table of rules, and the page that is generated from it."""

from __future__ import annotations

from pathlib import Path

from penstock.stream.checker.rules import RULES, as_markdown
from tests.stream.checker.fault_cases import ALL_CASES, FRAME_CASES

ROOT = Path(__file__).parents[3]


def test_the_rules_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "docs/rules.md is stale: run `make docs`"


def test_every_rule_has_a_one_line_title_and_a_reason() -> None:
    for id, rule in RULES.items():
        assert id == rule.id
        assert rule.title.endswith(".")
        assert "\n" not in rule.title
        assert rule.explanation.endswith(".")
        assert rule.breaks == "" or rule.breaks.endswith(".")


def test_every_rule_is_broken_by_some_case() -> None:
    broken = {case.rule for case in ALL_CASES} | {rule for rule, *_ in FRAME_CASES}
    broken |= {
        "transport.done-forbidden",
        "transport.error-envelope",
        "event.type",
    }  # tested in test_checker.py
    assert broken == set(RULES)
