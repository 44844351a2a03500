"""Every request is counted once, with the endpoint's figures or with marked estimates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.models.info import Prices
from penstock.provider.tracker import RECENT, Tokens, UsageTracker
from tests.provider.usages import usage


def test_a_running_request_shows_its_estimate_and_how_full_the_context_is() -> None:
    tracker = UsageTracker()
    tracker.start_request("a", 250, 1000, "m")
    (running,) = tracker.running
    assert (running.outcome, running.estimated_input, running.fill) == ("running", 250, 0.25)
    assert tracker.total.requests == 0


def test_a_completed_request_has_the_endpoints_figures() -> None:
    tracker = UsageTracker()
    tracker.start_request("a", 250, 1000, "m")
    tracker.complete_request("a", usage(300, 40, cached=100, reasoning=30))
    assert tracker.running == []
    (ended,) = tracker.recent
    assert (ended.outcome, ended.is_estimate, ended.fill) == ("completed", False, 0.3)
    assert tracker.total.tokens == Tokens(300, 40, 100, 30)
    assert tracker.by_model["m"] == tracker.total


def test_figures_are_summed_by_model_and_in_total() -> None:
    tracker = UsageTracker()
    for agent, model, tokens in (("a", "m", 10), ("b", "n", 20), ("c", "m", 30)):
        tracker.start_request(agent, tokens, 100, model)
        tracker.complete_request(agent, usage(tokens, 1))
    assert tracker.total.tokens == Tokens(60, 3)
    assert {model: totals.tokens.input for model, totals in tracker.by_model.items()} == {"m": 40, "n": 20}


def test_a_request_ends_once() -> None:
    tracker = UsageTracker()
    tracker.start_request("a", 10, 100, "m")
    tracker.cancel_request("a", estimated_output=5)
    tracker.complete_request("a", usage(10, 50))  # real usage that comes late is not counted again
    tracker.complete_request("never started", usage(10, 50))
    assert (tracker.total.requests, tracker.total.tokens) == (1, Tokens(10, 5))


def test_cancelled_and_failed_requests_are_counted_and_marked() -> None:
    tracker = UsageTracker()
    tracker.start_request("a", 10, 100, "m")
    tracker.cancel_request("a", estimated_output=5)
    tracker.start_request("b", 20, 100, "m")
    tracker.fail_request("b", ServerError("boom"), estimated_output=7)
    tracker.start_request("c", 30, 100, "m")
    tracker.fail_request("c", ServerError("refused"))
    total = tracker.total
    assert (total.requests, total.cancelled, total.failed, total.estimates) == (3, 1, 2, 2)
    assert total.tokens == Tokens(30, 12)  # what was refused has used nothing
    assert [request.error for request in tracker.recent] == ["", "boom", "refused"]


PRICES = Prices(2.0, 10.0, 0.5, 2.5)
COSTS = {
    "plain": (Tokens(1000, 100), PRICES, 1000 * 2 + 100 * 10),
    "cached": (Tokens(1000, 100, cached=600), PRICES, 400 * 2 + 600 * 0.5 + 100 * 10),
    "written": (Tokens(1000, 0, cached=600, cache_write=300), PRICES, 100 * 2 + 600 * 0.5 + 300 * 2.5),
    "no price for the cache": (Tokens(1000, 0, cached=600, cache_write=300), Prices(2.0, 10.0), 1000 * 2),
    "more cached than given": (Tokens(100, 0, cached=600), PRICES, 100 * 0.5),
}


@pytest.mark.parametrize(("tokens", "prices", "millionths"), COSTS.values(), ids=COSTS.keys())
def test_the_cost_uses_the_prices_of_cache_reads_and_writes(
    tokens: Tokens, prices: Prices, millionths: float
) -> None:
    assert tokens.cost(prices) == pytest.approx(millionths / 1e6)


def test_the_cost_excludes_models_without_prices_and_counts_them() -> None:
    tracker = UsageTracker()
    for agent, prices in (("a", PRICES), ("b", None)):
        tracker.start_request(agent, 10, 100, "m", prices=prices)
        tracker.complete_request(agent, usage(1_000_000, 0))
    assert tracker.total.cost == pytest.approx(2.0)
    assert tracker.total.unpriced == 1


def test_the_accuracy_compares_estimates_with_real_figures_only() -> None:
    tracker = UsageTracker()
    assert tracker.total.accuracy is None
    for agent, estimated, real in (("a", 90, 100), ("b", 120, 100)):
        tracker.start_request(agent, estimated, 1000, "m")
        tracker.complete_request(agent, usage(real, 1))
    tracker.start_request("c", 5, 1000, "m")
    tracker.complete_request("c", None)
    assert tracker.by_model["m"].accuracy == pytest.approx(0.85)


def test_a_listener_is_called_on_every_change_until_it_is_removed() -> None:
    tracker = UsageTracker()
    totals: list[int] = []
    stop = tracker.on_change(lambda: totals.append(tracker.total.requests))
    tracker.start_request("a", 1, 10, "m")
    tracker.complete_request("a", None)
    stop()
    stop()
    tracker.start_request("b", 1, 10, "m")
    assert totals == [0, 1]


def test_a_failing_listener_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    tracker = UsageTracker()
    tracker.on_change(lambda: print(1 / 0))
    tracker.start_request("a", 1, 10, "m")
    tracker.complete_request("a", usage(1, 1))
    assert tracker.total.requests == 1
    assert "a usage listener failed" in caplog.text


def test_a_long_session_keeps_only_the_newest_requests() -> None:
    tracker = UsageTracker()
    for number in range(RECENT + 10):
        tracker.start_request(str(number), 1, 10, "m")
        tracker.complete_request(str(number), None)
    assert len(tracker.recent) == RECENT
    assert tracker.recent[-1].agent_id == str(RECENT + 9)
    assert tracker.total.requests == RECENT + 10


def test_a_context_without_a_limit_is_never_full() -> None:
    tracker = UsageTracker()
    tracker.start_request("a", 5, 0, "m")
    assert tracker.running[0].fill == 0.0


COUNTS = st.integers(0, 10**7)


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS), max_size=20))
def test_totals_are_the_sum_of_all_requests(figures: list[tuple[int, int, int, int, int]]) -> None:
    tracker = UsageTracker()
    for number, each in enumerate(figures):
        tracker.start_request(str(number), 1, 10, "m", prices=PRICES)
        tracker.complete_request(str(number), usage(*each))
    total = tracker.total.tokens
    summed = [sum(column) for column in zip(*figures, strict=True)] or [0] * 5
    assert [total.input, total.output, total.cached, total.reasoning, total.cache_write] == summed
    assert tracker.total.cost >= 0
