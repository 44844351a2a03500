"""The usage line below an answer, and the totals of `/usage`."""

from __future__ import annotations

import pytest

from penstock.cli.chat.usage import footer, totals
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts
from penstock.provider.tracker import Tokens, TrackedRequest, UsageTracker

INFO = enrich(ModelFacts(id="m", window=200_000, max_output=100_000))
COUNTED = TrackedRequest("a", "m", 90, 100_000, "completed", Tokens(25_000, 300, 20_000, 200), False, 0.0123)
ESTIMATED = TrackedRequest("b", "m", 90, 100_000, "cancelled", Tokens(90, 5), True, None)


def test_the_footer_has_tokens_cost_and_context() -> None:
    assert footer([COUNTED], INFO) == (
        "in 25,000 (20,000 cached) · out 300 (200 reasoning) · $0.0123 · context ██░░░░░░░░ 25%"
    )


def test_estimates_are_marked_and_an_unknown_limit_too() -> None:
    unknown = enrich(ModelFacts(id="x"))
    assert footer([ESTIMATED], unknown, unicode=False) == "in ~90 | out ~5 | context .......... ~<1%"
    assert footer([COUNTED], unknown).endswith("context ██░░░░░░░░ ~25%")


def test_requests_are_added_and_a_missing_price_hides_the_cost() -> None:
    line = footer([COUNTED, ESTIMATED], INFO)
    assert line.startswith("in ~25,090 (20,000 cached) · out ~305")
    assert "$" not in line


def test_nothing_used_has_no_footer() -> None:
    assert footer([], INFO) == ""
    assert footer([TrackedRequest("a", "m", 90, 100, "failed")], INFO) == ""


@pytest.mark.parametrize(
    ("cost", "shown"), [(0.0, "$0.00"), (1.5, "$1.50"), (0.01234, "$0.0123"), (0.0000123, "$0.000012")]
)
def test_small_amounts_have_more_digits(cost: float, shown: str) -> None:
    request = TrackedRequest("a", "m", 9, 0, "completed", Tokens(1, 1), False, cost)
    assert footer([request], INFO) == f"in 1 · out 1 · {shown}"


def test_totals_of_an_unused_tracker() -> None:
    assert totals(UsageTracker()) == ["no usage yet"]
