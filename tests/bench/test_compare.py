from __future__ import annotations

import random

import pytest
from bench.compare import verdict


def ratios(factor: float, noise: float, count: int = 12) -> list[float]:
    dice = random.Random(7)
    return [factor * dice.gauss(1, noise) for _ in range(count)]


@pytest.mark.parametrize(
    ("factor", "noise", "expected"),
    [
        (1.3, 0.08, "slower"),
        (1.1, 0.03, "slower"),
        (0.7, 0.08, "faster"),
        (1.0, 0.08, "no clear difference"),
        (1.02, 0.001, "no clear difference"),
        (1.05, 0.25, "no clear difference"),
    ],
)
def test_a_verdict_needs_more_than_noise(factor: float, noise: float, expected: str) -> None:
    assert verdict(ratios(factor, noise)) == expected


def test_one_busy_moment_does_not_decide() -> None:
    assert verdict([1.0] * 11 + [9.0]) == "no clear difference"
    assert verdict([1.3] * 11 + [0.2]) == "slower"
