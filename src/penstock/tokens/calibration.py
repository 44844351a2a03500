"""Learn how many tokens a model really uses for what we count, from the usage of its turns.

If we do not have a model's tokenizer, two things differ: the size of its tokens, which is a factor, and what
its template, its rendering of tools and its vendor's hidden prompt add, which is a constant. So we fit a line
`real = overhead + factor * raw` to the usage, with a prior for both: a short prompt that costs 250 tokens too
many has an overhead, a long one that costs a fifth too many has a different tokenizer. Newer turns have more
weight. If the tokenizer is the model's own, only the overhead is learned.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from msgspec import Struct

LOWEST, HIGHEST = 0.5, 3.0
"""The range of the factor: no two tokenizers differ by more."""

_MAX_TURNS = 8
_DECAY = 0.6
"""The weight of a turn relative to the next one."""

_FACTOR_DEVIATION = 0.2
"""The standard deviation of the factor around 1: the initial factor of a family is about this good."""
_OVERHEAD_DEVIATION = 500.0
"""The standard deviation of the overhead: recorded turns with one tool had 7 to 1,440 hidden tokens."""
_NOISE, _NOISE_TOKENS = 0.003, 5.0
"""The deviation of a turn from the line, as a share and in tokens."""

_OUTLIER = 0.5
_OUTLIER_TOKENS = 2000.0
"""A turn that deviates by more than this share plus this number is used only if the next one agrees."""


class UsageSample(Struct, frozen=True):
    raw: float
    real: int


class Line(Struct, frozen=True):
    """Converts a raw count to a real one."""

    factor: float = 1.0
    overhead: float = 0.0

    def at(self, raw: float) -> float:
        # An overhead learned from large requests must not reduce a small request to nothing.
        return max(self.overhead + self.factor * raw, LOWEST * raw)


class _Learned(Struct):
    line: Line = Line()
    turns: list[UsageSample] = []
    outlier: UsageSample | None = None


class Calibration:
    """The lines of the most recently used models. Thread-safe."""

    def __init__(self, models: int = 64) -> None:
        self._models = models
        self._learned: OrderedDict[str, _Learned] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._learned)

    def line(self, model: str) -> Line:
        learned = self._learned.get(model)
        return learned.line if learned is not None else Line()

    def learn(self, model: str, raw: float, real: int, *, exact: bool) -> None:
        """Learn that a turn counted as `raw` cost `real` tokens. A cost of zero is ignored."""
        if raw <= 0 or real <= 0:
            return
        with self._lock:
            learned = self._learned.setdefault(model, _Learned())
            self._learned.move_to_end(model)
            while len(self._learned) > self._models:
                self._learned.popitem(last=False)
            _add_sample(learned, UsageSample(raw, real), exact)


def _add_sample(learned: _Learned, turn: UsageSample, exact: bool) -> None:
    """Ignore a single outlier (only cached tokens, or the sum of several calls); believe two in a row."""
    expected = learned.line.at(turn.raw)
    outlier, learned.outlier = learned.outlier, None
    if abs(turn.real - expected) > _OUTLIER * expected + _OUTLIER_TOKENS:
        if outlier is None or (outlier.real > learned.line.at(outlier.raw)) != (turn.real > expected):
            learned.outlier = turn
            return
        learned.turns = [outlier]
    learned.turns = [*learned.turns, turn][-_MAX_TURNS:]
    learned.line = fit(learned.turns, exact=exact)


def fit(turns: list[UsageSample], *, exact: bool) -> Line:
    """Fit the most likely line to the turns, the newest of which is last (a ridge regression)."""
    ones, raws, reals = _OVERHEAD_DEVIATION**-2, 0.0, 0.0
    squares = products = _FACTOR_DEVIATION**-2
    weight = 1.0
    for turn in reversed(turns):
        precision = weight / (_NOISE * turn.raw + _NOISE_TOKENS) ** 2
        ones += precision
        raws += precision * turn.raw
        squares += precision * turn.raw**2
        reals += precision * turn.real
        products += precision * turn.raw * turn.real
        weight *= _DECAY
    factor = 1.0
    if not exact:
        factor = (products - raws * reals / ones) / (squares - raws * raws / ones)
        factor = min(max(factor, LOWEST), HIGHEST)
    return Line(factor, (reals - raws * factor) / ones)
