"""Models and usage as JSON: the figures add up, and updates are not sent too often."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.models.enrich import enrich
from penstock.models.info import LearnedLimit, ModelFacts, Prices
from penstock.provider.host.figures import PAUSE, UsageUpdates, model_to_json, usage_to_json
from penstock.provider.tracker import UsageTracker
from tests.provider.usages import usage

PRICES = Prices(input=2.0, output=10.0, cached_input=0.5)
SUMS = ("requests", "failed", "cancelled", "input", "cached", "reasoning", "output", "unpriced")

turns = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["m", "n"]),
        st.sampled_from(["completed", "cancelled", "failed", "running"]),
        st.booleans(),
        st.integers(0, 1000),
    ),
    max_size=30,
)


def track(requests: list[tuple[str, str, str, bool, int]]) -> dict[str, UsageTracker]:
    ticks = count(1)
    trackers = {name: UsageTracker(lambda: float(next(ticks))) for name in ("a", "b")}
    for index, (group, model, outcome, is_priced, tokens) in enumerate(requests):
        tracker, agent = trackers[group], str(index)
        tracker.start_request(agent, tokens, 1000, model, prices=PRICES if is_priced else None)
        if outcome == "completed":
            tracker.complete_request(agent, usage(tokens, 5, cached=tokens // 2), response_id=f"resp_{agent}")
        elif outcome == "cancelled":
            tracker.cancel_request(agent, estimated_output=3)
        elif outcome == "failed":
            tracker.fail_request(agent, ServerError("boom"))
    return trackers


@given(turns)
def test_the_figures_add_up(requests: list[tuple[str, str, str, bool, int]]) -> None:
    figures = usage_to_json(track(requests))
    for name in SUMS:
        assert figures["total"][name] == sum(row[name] for row in figures["by_model"])
    assert figures["total"]["input"] == sum(row["input"] for row in figures["recent"])
    costs = [row["cost"] for row in figures["recent"] if row["cost"] is not None]
    assert figures["total"]["cost"] == (pytest.approx(sum(costs)) if costs else None)
    assert len(figures["running"]) == sum(outcome == "running" for *_, outcome, _, _ in requests)
    assert len(figures["running"]) + figures["total"]["requests"] == len(requests)
    assert figures["last"] == (figures["recent"][0] if figures["recent"] else None)


def test_the_newest_request_is_first_in_any_group() -> None:
    figures = usage_to_json(
        track(
            [
                ("a", "m", "completed", True, 10),
                ("b", "n", "failed", True, 20),
                ("a", "m", "cancelled", True, 30),
            ]
        )
    )
    assert [(row["group"], row["outcome"]) for row in figures["recent"]] == [
        ("a", "cancelled"),
        ("b", "failed"),
        ("a", "completed"),
    ]
    assert [row["response_id"] for row in figures["recent"]] == [None, None, "resp_0"]
    assert [row["seconds"] for row in figures["recent"]] == [1.0, 1.0, 1.0]
    assert figures["recent"][1]["error"] == "boom"


def test_a_request_without_usage_does_not_make_the_sum_an_estimate() -> None:
    figures = usage_to_json(track([("a", "m", "completed", True, 10), ("a", "m", "failed", True, 10)]))
    assert (figures["total"]["is_estimate"], figures["total"]["failed"]) == (False, 1)
    figures = usage_to_json(track([("a", "m", "cancelled", True, 10)]))
    assert figures["total"]["is_estimate"] is True


def test_a_running_request_has_its_share_of_the_context() -> None:
    (row,) = usage_to_json(track([("a", "m", "running", True, 250)]))["running"]
    assert (row["estimated_input"], row["max_input"], row["share"], row["seconds"]) == (250, 1000, 0.25, 0.0)


def test_a_model_has_all_fields_and_a_tooltip() -> None:
    facts = ModelFacts(
        id="vendor/big-1",
        window=100_000,
        max_output=20_000,
        reasoning=True,
        efforts=("low", "high"),
        prices=PRICES,
        description="The big one.",
    )
    model = model_to_json(enrich(facts))
    assert (model["id"], model["max_input_tokens"], model["max_output_tokens"]) == (
        "vendor/big-1",
        80_000,
        20_000,
    )
    assert (model["reasoning"], model["efforts"], model["source"]) == (True, ["low", "high"], "endpoint")
    assert model["prices"] == {"input": 2.0, "output": 10.0, "cached_input": 0.5}
    assert model["tooltip"] == [
        "80,000 tokens in, 20,000 out (from the endpoint's model list)",
        "$2 in, $0.5 cached, $10 out per million tokens",
        "The big one.",
    ]
    assert model["detail"] == "tools, thinking · 100K"
    plain = model_to_json(enrich(ModelFacts(id="unknown-model")))
    assert (plain["prices"], plain["efforts"], plain["source"]) == (None, [], "default")
    assert plain["tooltip"] == ["61,440 tokens in, 4,096 out (a default, because no source has it)"]


LEARNED = LearnedLimit(48_000, 1_700_000_000, 50_123)


@pytest.mark.parametrize(
    ("learned", "explained"),
    [
        (LEARNED, "learned on 2023-11-14 from an error of the endpoint, which refused 50,123 tokens"),
        (LearnedLimit(48_000, 1_700_000_000), "learned on 2023-11-14 from an error of the endpoint"),
    ],
)
def test_the_tooltip_says_when_a_limit_was_learned(learned: LearnedLimit, explained: str) -> None:
    model = model_to_json(enrich(ModelFacts(id="unknown-model"), learned=learned))
    assert (model["source"], model["max_input_tokens"]) == ("learned", 43_904)
    assert model["tooltip"] == [f"43,904 tokens in, 4,096 out ({explained})"]
    assert model["detail"] == "tools · 48K"


@pytest.mark.parametrize(
    ("facts", "detail"),
    [
        (ModelFacts(window=200_000, image_input=True, reasoning=True), "vision, tools, thinking · 200K"),
        (ModelFacts(window=1_048_576, tool_calling=False, image_input=True), "vision · 1M"),
        (ModelFacts(window=1_500_000), "tools · 1.5M"),
        (ModelFacts(window=8_192, tool_calling=False), "8K"),
        (ModelFacts(window=65_536), "tools · 66K"),
        (ModelFacts(window=999_999), "tools · 1M"),
        (ModelFacts(window=512), "tools · 512"),
    ],
)
def test_the_detail_of_a_model_has_its_capabilities_in_a_few_words(facts: ModelFacts, detail: str) -> None:
    assert model_to_json(enrich(facts))["detail"] == detail


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self._scheduled: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Any:
        self._scheduled.append((self.now + delay, callback))

    def move(self, seconds: float) -> None:
        self.now += seconds
        ready = [each for each in self._scheduled if each[0] <= self.now]
        self._scheduled = [each for each in self._scheduled if each[0] > self.now]
        for _, callback in ready:
            callback()


def test_updates_are_sent_at_most_ten_times_a_second_with_the_last_state() -> None:
    clock, state, sent = Clock(), [0], list[int]()

    def send() -> bool:
        sent.append(state[0])
        return True

    updates = UsageUpdates(send, clock)
    for tick in range(1, 101):  # a change every millisecond, for a tenth of a second
        state[0] = tick
        updates.changed()
        clock.move(0.001)
    assert sent == [1]
    clock.move(PAUSE)
    assert sent == [1, 100]
    clock.move(10 * PAUSE)
    assert sent == [1, 100]


def test_an_update_is_retried_if_the_outbox_is_full() -> None:
    clock, answers, sent = Clock(), [False, False, True], list[float]()

    def send() -> bool:
        sent.append(clock.now)
        return answers.pop(0)

    UsageUpdates(send, clock).changed()
    for _ in range(40):
        clock.move(PAUSE / 4)
    assert len(sent) == 3
    assert answers == []
