"""The fuzzing loop of one target: pick an input, change it, run it, keep it if it reaches something new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from fuzz.execution import BUCKETS, Failure, Outcome, execute
from fuzz.minimise import minimised
from fuzz.mutators import Source, mutate
from fuzz.storage import Folders, Input
from fuzz.target import Target

Execute = Callable[[Target, bytes], Outcome]

MOST_INPUTS = 4000
_USUAL_BYTES = 300


class Entry(Struct):
    """An input of the corpus. `picks`: how often it was changed."""

    input: Input
    picks: int = 0


class Loop:
    """Deterministic: the same code, inputs, seed and number of runs find the same."""

    def __init__(
        self,
        target: Target,
        random: Random,
        words: Sequence[str],
        *,
        folders: Folders | None = None,
        run: Execute = execute,
    ) -> None:
        self.target = target
        self.runs = self.most_work = 0
        self.entries: list[Entry] = []
        self.findings: dict[str, Path] = {}
        """By signature: the smallest input that causes it."""
        self._features: set[int] = set()
        self._random, self._words, self._run = random, words, run
        self._folders = folders or Folders()

    @property
    def branches(self) -> int:
        return len({feature // BUCKETS for feature in self._features})

    def load(self, inputs: Sequence[Input]) -> None:
        """Run the known inputs, the short ones first."""
        for each in sorted(inputs, key=lambda each: (len(each.data), each.data)):
            self._try(each, is_known=True)

    def step(self) -> None:
        """Run one new input."""
        entry = self._pick()
        other = self._random.choice(self.entries).input if self.entries else Input(b"")
        source = Source(self._random, self._words, other.data)
        data = mutate(entry.input.data, self.target.format, source)
        # It may contain something of the other one.
        self._try(Input(data, entry.input.is_recorded or other.is_recorded))

    def _pick(self) -> Entry:
        if not self.entries:
            return Entry(Input(b""))
        some = [self._random.choice(self.entries) for _ in range(3)]
        # Short inputs run faster, and most of what a long one reaches has nothing to do with its length.
        entry = min(some, key=lambda each: (each.picks + 1) * (len(each.input.data) + _USUAL_BYTES))
        entry.picks += 1
        return entry

    def _try(self, input: Input, *, is_known: bool = False) -> None:
        self.runs += 1
        outcome = self._run(self.target, input.data)
        if outcome.failure is not None:
            self._found(input.data, outcome.failure)
            return
        self.most_work = max(self.most_work, outcome.work)
        if outcome.features <= self._features or len(self.entries) >= MOST_INPUTS:
            return
        self._features |= outcome.features
        self.entries.append(Entry(input))
        if not is_known:
            self._folders.save(self.target, input)

    def _found(self, data: bytes, failure: Failure) -> None:
        if failure.signature in self.findings:
            return
        smallest = minimised(data, lambda each: self._signature_of(each) == failure.signature)
        last = self._run(self.target, smallest).failure or failure
        path, command = self._folders.save_finding(self.target, smallest, last)
        self.findings[failure.signature] = path
        print(f"\n{self.target.name}: {last.signature}\n{last.report}\n{path}\n{command}\n", flush=True)

    def _signature_of(self, data: bytes) -> str:
        failure = self._run(self.target, data).failure
        return failure.signature if failure is not None else ""


def fewest(entries: Sequence[tuple[bytes, frozenset[int]]], most: int, most_bytes: int) -> list[bytes]:
    """Return few inputs that together reach as much as all: each time the one that adds most, or else the
    shortest."""
    left = list(entries)
    reached: set[int] = set()
    kept: list[bytes] = []
    size = 0
    while left and len(kept) < most:
        best = max(left, key=lambda each: (len(each[1] - reached), -len(each[0]), each[0]))
        left.remove(best)
        if not best[1] - reached:
            break
        if size + len(best[0]) <= most_bytes:
            reached |= best[1]
            kept.append(best[0])
            size += len(best[0])
    return kept
