"""Whether a series is flat: noise and outliers are, and a slow leak is not."""

from __future__ import annotations

import random

import pytest
from bench.soak.trend import HOUR, thin, trend

Series = list[tuple[float, float]]


def series(growth: float, *, level: float = 100.0, noise: float = 1.0, seconds: float = 3000.0) -> Series:
    """A sample every five seconds that grows by so much in an hour."""
    chance = random.Random(3)
    moments = [5.0 * number for number in range(int(seconds / 5))]
    return [(at, level + growth * at / HOUR + chance.gauss(0, noise)) for at in moments]


@pytest.mark.parametrize("noise", [0.0, 1.0, 10.0])
def test_noise_is_flat(noise: float) -> None:
    assert trend(series(0, noise=noise)).is_flat


def test_a_slow_leak_is_not() -> None:
    found = trend(series(8))
    assert found.growth == pytest.approx(8, abs=0.5)
    assert not found.is_flat


def test_what_shrinks_is_flat() -> None:
    assert trend(series(-50)).is_flat


def test_outliers_do_not_change_a_trend() -> None:
    samples = series(2, noise=0.1)
    samples[-20:] = [(at, 5 * value) for at, value in samples[-20:]]
    assert trend(samples).growth == pytest.approx(2, abs=0.5)


def test_a_step_in_the_middle_is_a_growth() -> None:
    samples = series(0, noise=0.1)
    half = len(samples) // 2
    assert not trend([*samples[:half], *((at, value + 20) for at, value in samples[half:])]).is_flat


def test_a_short_run_is_not_extrapolated() -> None:
    found = trend(series(60, noise=0.0, seconds=120))
    assert found.per_hour == pytest.approx(60)
    assert found.growth == pytest.approx(60 * 115 / HOUR)
    assert found.is_flat


def test_a_value_may_always_grow_by_its_slack() -> None:
    samples = series(8)
    assert trend(samples, slack=9).is_flat
    assert not trend(samples, slack=7).is_flat


def test_one_sample_has_no_trend() -> None:
    with pytest.raises(ValueError, match="two samples"):
        trend([(0.0, 1.0)])


def test_thinning_keeps_the_first_and_the_last_sample() -> None:
    samples = [(float(at), float(at)) for at in range(1000)]
    thinned = thin(samples, 7)
    assert len(thinned) == 7
    assert (thinned[0], thinned[-1]) == (samples[0], samples[-1])
    assert thin(samples[:5], 7) == samples[:5]
