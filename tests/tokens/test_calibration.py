"""Learning from real usage."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tokens.calibration import HIGHEST, LOWEST, Calibration, Line, UsageSample, fit


def learned(turns: Iterable[tuple[float, int]], *, exact: bool = False) -> Calibration:
    calibration = Calibration()
    for raw, real in turns:
        calibration.learn("m", raw, real, exact=exact)
    return calibration


def expected(turns: Iterable[tuple[float, int]], raw: float, *, exact: bool = False) -> float:
    return learned(turns, exact=exact).line("m").at(raw)


def test_without_samples_counts_are_unchanged() -> None:
    assert Calibration().line("m").at(1234.5) == 1234.5


def test_a_long_prompt_that_costs_more_has_a_factor() -> None:
    line = learned([(20_000, 24_000)]).line("m")
    assert line.factor == pytest.approx(1.2, abs=0.01)
    assert line.at(40_000) == pytest.approx(48_000, rel=0.02)


def test_a_short_prompt_that_costs_more_has_an_overhead() -> None:
    line = learned([(80, 340)]).line("m")
    assert line.factor == pytest.approx(1, abs=0.02)
    assert line.at(200) == pytest.approx(460, rel=0.02)


def test_two_turns_separate_the_factor_from_the_overhead() -> None:
    def real(raw: int) -> int:
        return round(1.3 * raw + 700)

    assert expected([(1000, real(1000)), (4000, real(4000))], 9000) == pytest.approx(real(9000), rel=0.02)


def test_newer_turns_have_more_weight() -> None:
    turns = [(10_000, 10_000)] * 4 + [(10_000, 12_000)] * 3
    assert expected(turns, 10_000) == pytest.approx(12_000, rel=0.06)


@pytest.mark.parametrize("outlier", [0, -5, 3, 200_000])
def test_one_outlier_is_ignored(outlier: int) -> None:
    turns = [(20_000, 23_000), (22_000, 25_300)]
    assert expected([*turns, (24_000, outlier)], 26_000) == expected(turns, 26_000)


@pytest.mark.parametrize("outlier", [3, 900_000])
def test_an_outlier_on_the_first_turn_is_ignored(outlier: int) -> None:
    assert expected([(20_000, outlier), (21_000, 24_150)], 22_000) == pytest.approx(25_300, rel=0.02)


def test_a_lasting_change_is_learned_on_the_second_turn() -> None:
    turns = [(20_000, 20_000), (21_000, 21_000), (22_000, 46_000), (23_000, 48_000)]
    assert expected(turns, 24_000) == pytest.approx(50_000, rel=0.05)


def test_outliers_in_opposite_directions_do_not_confirm_each_other() -> None:
    turns = [(20_000, 20_000), (20_000, 50_000), (20_000, 3)]
    assert expected(turns, 20_000) == pytest.approx(20_000, rel=0.01)


def test_an_exact_encoding_learns_only_an_overhead() -> None:
    line = learned([(10_000, 10_800), (20_000, 20_800)], exact=True).line("m")
    assert line.factor == 1.0
    assert line.at(30_000) == pytest.approx(30_800, rel=0.01)


def test_a_negative_overhead_never_reduces_a_count_below_half() -> None:
    assert Line(1.0, -400).at(100) == 50


def test_turns_without_tokens_are_ignored() -> None:
    calibration = learned([(0, 10), (-1, 10), (10, 0)])
    assert len(calibration) == 0


def test_models_are_learned_separately_and_the_least_recent_is_evicted() -> None:
    calibration = Calibration(models=2)
    for model in ("a", "b", "a", "c"):
        calibration.learn(model, 10_000, 12_000, exact=False)
    assert len(calibration) == 2
    assert [calibration.line(model) == Line() for model in "abc"] == [False, True, False]


turns = st.lists(st.tuples(st.floats(0.1, 1e7), st.integers(1, 10**7)), min_size=1, max_size=12)


@given(turns, st.booleans(), st.floats(0, 1e7))
def test_a_fitted_line_is_always_bounded(seen: list[tuple[float, int]], exact: bool, raw: float) -> None:
    line = fit([UsageSample(*turn) for turn in seen], exact=exact)
    assert LOWEST <= line.factor <= HIGHEST
    assert line.at(raw) >= LOWEST * raw
    assert expected(seen, raw, exact=exact) >= 0


@given(
    factor=st.floats(0.85, 1.6),
    overhead=st.floats(0, 1500),
    first=st.integers(2000, 100_000),
    growth=st.lists(st.floats(0.1, 0.5), min_size=2, max_size=8),
)
def test_a_linear_provider_is_learned_in_two_turns(
    factor: float, overhead: float, first: int, growth: list[float]
) -> None:
    """The first turn is an editor's prompt, and each turn adds a tenth to a half."""
    calibration, raw = Calibration(), float(first)
    for number, grown in enumerate([0, *growth]):
        raw *= 1 + grown
        real = round(factor * raw + overhead)
        if number >= 2:
            assert calibration.line("m").at(raw) == pytest.approx(real, rel=0.05)
        calibration.learn("m", raw, real, exact=False)


def test_it_is_thread_safe() -> None:
    calibration = Calibration(models=3)

    def learn(model: str) -> None:
        for number in range(1, 500):
            calibration.learn(f"{model}{number % 5}", 1000 * number, 1100 * number, exact=False)
            calibration.line(model)

    threads = [Thread(target=learn, args=(model,)) for model in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calibration) == 3
