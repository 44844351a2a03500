from __future__ import annotations

import pytest
from bench.figures import Figure, Target, as_markdown, as_text, fit, interval, rows, shown, take_turns
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = {"penstock": [6.0, 4.0, 5.0], "floor": [2.0, 2.5, 2.0]}


def figure(target: Target | None = None, **options: bool) -> Figure:
    return Figure("flood", "flood", "ms", SAMPLES, target=target, **options)  # type: ignore[arg-type]


def test_the_smallest_sample_counts() -> None:
    assert figure().best("penstock") == 4.0
    assert figure().ratio() == 2.0


def test_the_middle_sample_counts_where_noise_goes_both_ways() -> None:
    assert figure(by_median=True).best("penstock") == 5.0


def test_the_largest_sample_counts_where_more_is_better() -> None:
    assert figure(Target(320, at_least=True)).best("penstock") == 6.0


def test_the_spread_compares_samples_of_the_same_round() -> None:
    assert figure().spread() == (4.0 / 2.5, 6.0 / 2.0)


def test_a_line_without_samples_has_no_ratio() -> None:
    alone = Figure("lost", "lost", "streams", {"penstock": [0.0]}, target=Target(0))
    assert (alone.best("floor"), alone.ratio(), alone.spread(), alone.is_met) == (None, None, None, True)


def test_a_ratio_to_nothing_is_left_out() -> None:
    assert Figure("stream", "stream", "KB", {"penstock": [12.0], "floor": [-0.5]}).ratio() is None


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (Target(2.0, "floor"), True),
        (Target(1.9, "floor"), False),
        (Target(4.0), True),
        (Target(3.9), False),
        (Target(6, at_least=True), True),
        (Target(7, at_least=True), False),
        (Target(2.0, "agentic"), None),
        (None, None),
    ],
)
def test_targets(target: Target | None, is_met: bool | None) -> None:
    assert figure(target).is_met is is_met


def test_sides_take_turns_in_alternating_order() -> None:
    calls: list[str] = []

    def measure(name: str) -> float:
        calls.append(name)
        return len(calls)

    found = take_turns({"a": lambda: measure("a"), "b": lambda: measure("b")}, 3)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_a_fit_finds_the_line(intercept: float, slope: float) -> None:
    found = fit((x, intercept + slope * x) for x in (4, 16, 64, 256))
    assert found == pytest.approx((intercept, slope), abs=1e-6)


def test_an_interval_leaves_out_the_tails() -> None:
    """Of twelve values, the third and the tenth enclose the median with 96 %."""
    assert interval([float(number) for number in range(1, 13)]) == (3, 6.5, 10)


def test_few_values_have_a_wide_interval() -> None:
    assert interval([1.0, 9.0, 2.0]) == (1, 2, 9)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.1234, "0.12"), (12.34, "12.3"), (1234.5, "1,234"), (64.0, "64"), (-0.5, "-0.50")],
)
def test_three_digits_are_shown(value: float | None, text: str) -> None:
    assert shown(value) == text


def test_a_row_names_lines_ratio_and_target() -> None:
    (row,) = rows([figure(Target(1.5, "floor"))])
    assert row == (
        "flood",
        "ms",
        "4",
        "py-raw-translate 2",
        "2.00 (1.60 to 3.00)",
        "≤ 1.5 × py-raw-translate",
        "**no**",
    )


def test_tables() -> None:
    table = [("long name", "**no**"), ("b", "yes")]
    assert as_text(("a", "met"), table) == "a          met\nlong name  no\nb          yes"
    expected = "| a | met |\n|---|---|\n| long name | **no** |\n| b | yes |"
    assert as_markdown(("a", "met"), table) == expected
