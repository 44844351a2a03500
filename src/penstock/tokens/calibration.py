"""What a model really takes for what we count, learned from the usage of its turns.

Two things are off for a model whose tokenizer we do not have: the size of its tokens, which is a factor, and
what its template, its rendering of tools and its vendor's hidden prompt add, which is a number. So a line is
fitted through what was seen, `real = overhead + factor * raw`, held by how likely either is from the start:
a short prompt that costs 250 too many has an overhead, a long one that costs a fifth too many has other
tokens. Newer turns count for more. Where the tokenizer is the model's own, only the overhead is learned.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from msgspec import Struct

LOWEST, HIGHEST = 0.5, 3.0
"""No tokenizer is further from another than this."""

_TURNS = 8
_FADING = 0.6
"""How much a turn counts against the one behind it."""

_SPREAD = 0.2
"""How far factors are from 1, as a standard deviation: our start for a family is about this good."""
_OVERHEAD = 500.0
"""How large overheads are: a recorded turn with one tool had 7 to 1,440 tokens that we cannot see."""
_NOISE, _NOISE_TOKENS = 0.003, 5.0
"""How far a turn lies from the line, as a share and in tokens: a conversation goes on as it was."""

_DOUBTFUL = 0.5
_DOUBTFUL_TOKENS = 2000.0
"""A turn that is further from what was expected than this share and number is believed if another agrees."""


class UsageSample(Struct, frozen=True):
    raw: float
    real: int


class Line(Struct, frozen=True):
    """Makes a raw count a real one."""

    factor: float = 1.0
    overhead: float = 0.0

    def at(self, raw: float) -> float:
        # A number that was learned from large requests must not turn a small one into nothing.
        return max(self.overhead + self.factor * raw, LOWEST * raw)


class _Learned(Struct):
    line: Line = Line()
    turns: list[UsageSample] = []
    doubted: UsageSample | None = None


class Calibration:
    """The lines of the models that were used last. Threads may share it."""

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
        """A turn that was counted as `raw` has cost `real`. One that cost nothing tells nothing."""
        if raw <= 0 or real <= 0:
            return
        with self._lock:
            learned = self._learned.setdefault(model, _Learned())
            self._learned.move_to_end(model)
            while len(self._learned) > self._models:
                self._learned.popitem(last=False)
            _take(learned, UsageSample(raw, real), exact)


def _take(learned: _Learned, turn: UsageSample, exact: bool) -> None:
    """One absurd figure (only what was cached, or all that several calls took) changes nothing. Two do."""
    expected = learned.line.at(turn.raw)
    doubted, learned.doubted = learned.doubted, None
    if abs(turn.real - expected) > _DOUBTFUL * expected + _DOUBTFUL_TOKENS:
        if doubted is None or (doubted.real > learned.line.at(doubted.raw)) != (turn.real > expected):
            learned.doubted = turn
            return
        learned.turns = [doubted]
    learned.turns = [*learned.turns, turn][-_TURNS:]
    learned.line = fit(learned.turns, exact=exact)


def fit(turns: list[UsageSample], *, exact: bool) -> Line:
    """The likeliest line through the turns, the newest of which comes last (a ridge regression)."""
    ones, raws, squares, reals, products = _OVERHEAD**-2, 0.0, _SPREAD**-2, 0.0, _SPREAD**-2
    weight = 1.0
    for turn in reversed(turns):
        certain = weight / (_NOISE * turn.raw + _NOISE_TOKENS) ** 2
        ones += certain
        raws += certain * turn.raw
        squares += certain * turn.raw**2
        reals += certain * turn.real
        products += certain * turn.raw * turn.real
        weight *= _FADING
    factor = 1.0
    if not exact:
        factor = (products - raws * reals / ones) / (squares - raws * raws / ones)
        factor = min(max(factor, LOWEST), HIGHEST)
    return Line(factor, (reals - raws * factor) / ones)
