"""Ejection: a target that keeps failing is left out for a while, so that turns do not wait for it.

Each process counts on its own. A target is *ejected* after several failures in a row, or if at least half of
its last attempts failed. When its time is over, one turn tries it again: a *probe*. If that succeeds, the
target is back; if not, it is ejected for twice as long. Only failures that are the target's own fault count
(`attempts.RetryRule.ejects`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from penstock.errors import OpenResponsesError
from penstock.formatting import counted

TargetModel = tuple[str, str]
"""The names of a target and of a model there. One model of a vendor may be overloaded while others work."""

_WINDOW = 4
"""The last attempts that are looked at, as a multiple of `EjectionRule.after`."""


class EjectionRule(Struct, frozen=True, kw_only=True):
    """When a target is ejected, and for how long. Times are in seconds."""

    after: int = 5
    """Failures in a row; 0: targets are never ejected."""
    seconds: float = 10.0
    """The time of the first ejection. It doubles each time, as long as the target keeps failing."""
    most_seconds: float = 300.0


class EjectionChange(Struct, frozen=True, kw_only=True):
    """A target was ejected, or it is back."""

    target: str
    model: str
    seconds: float = 0.0
    """For how long it is ejected; 0: it is back."""
    failures: int = 0
    attempts: int = 0
    """How many of its last attempts failed."""
    error: OpenResponsesError | None = None
    """The last failure."""

    def sentence(self) -> str:
        where = f"target {self.target} ({self.model})"
        if not self.seconds:
            return f"{where} answers again: it is no longer ejected"
        counts = f"{self.failures} of its last {counted(self.attempts, 'attempt')} failed"
        return f"{where} is ejected for {self.seconds:g} s: {counts}"


class _Record(Struct):
    """What is known about a target that has failed lately."""

    in_row: int = 0
    """Failures since its last answer."""
    results: int = 0
    """The last attempts as bits, the newest last: 1 is a failure."""
    count: int = 0
    """How many of them there are."""
    until: float | None = None
    """When the ejection ends; None: it is not ejected."""
    probe_until: float = -1.0
    """When a probe that is running counts as lost, and another turn may try."""
    seconds: float = 0.0
    """How long its last ejection was."""
    returned_at: float = 0.0

    def add(self, failed: bool, most: int) -> None:
        self.in_row = self.in_row + 1 if failed else 0
        self.results = (self.results << 1 | failed) & ((1 << most) - 1)
        self.count = min(self.count + 1, most)


class Ejections:
    """The targets of one process that have failed lately. `clock` returns monotonic seconds, `changed` is
    called when a target is ejected or comes back.

    Attempts at a model with a single target are not counted, so there is at most one record for each target
    in the configuration.
    """

    def __init__(
        self,
        rule: EjectionRule,
        *,
        clock: Callable[[], float],
        changed: Callable[[EjectionChange], None] = lambda _: None,
    ) -> None:
        self._rule, self._clock, self._changed = rule, clock, changed
        self._records: dict[TargetModel, _Record] = {}

    def configure(self, rule: EjectionRule, keep: Collection[TargetModel]) -> None:
        """Apply changed settings. What is known about targets other than these is forgotten."""
        self._rule = rule
        known = keep if rule.after else ()
        self._records = {name: record for name, record in self._records.items() if name in known}

    def is_ejected(self, name: TargetModel) -> bool:
        record = self._records.get(name)
        return record is not None and record.until is not None

    def admits(self, name: TargetModel) -> bool:
        """Return whether a turn may use a target now. If its time is over, the turn is the probe, and the
        others go on without the target until `answered`, `failed` or `released` is called."""
        record = self._records.get(name)
        if record is None or record.until is None:
            return True
        now = self._clock()
        if now < record.until or now < record.probe_until:
            return False
        record.probe_until = now + self._rule.most_seconds
        return True

    def answered(self, name: TargetModel) -> None:
        """Count an answer. It also brings back a target that was used because there was no other."""
        record = self._records.get(name)
        if record is None:
            return
        now = self._clock()
        if record.until is not None:
            self._records[name] = _Record(seconds=record.seconds, returned_at=now)
            self._changed(EjectionChange(target=name[0], model=name[1]))
            return
        record.add(False, self._most)
        if not record.results and now - record.returned_at > record.seconds:
            del self._records[name]

    def failed(self, name: TargetModel, among: Sequence[TargetModel], error: OpenResponsesError) -> None:
        """Count a failure, and eject the target if that is due. `among` are all targets of the model: the
        last one that is left is never ejected."""
        if not self._rule.after:
            return
        record = self._records.setdefault(name, _Record())
        record.add(True, self._most)
        if record.until is not None:
            if record.probe_until > self._clock():
                self._eject(name, record, error)  # the probe has failed
        elif self._is_due(record) and any(each != name and not self.is_ejected(each) for each in among):
            self._eject(name, record, error)

    def released(self, name: TargetModel) -> None:
        """Note that an attempt has ended without saying anything about the target: another may be the
        probe."""
        record = self._records.get(name)
        if record is not None:
            record.probe_until = -1.0

    def ejected(self) -> dict[str, float]:
        """Return how many models of each target are ejected now."""
        found: dict[str, float] = {}
        for name, record in self._records.items():
            found[name[0]] = found.get(name[0], 0) + (record.until is not None)
        return found

    @property
    def _most(self) -> int:
        return _WINDOW * self._rule.after

    def _is_due(self, record: _Record) -> bool:
        if record.in_row >= self._rule.after:
            return True
        return record.count == self._most and 2 * record.results.bit_count() >= record.count

    def _eject(self, name: TargetModel, record: _Record, error: OpenResponsesError) -> None:
        now, rule = self._clock(), self._rule
        lasted = record.until is not None or now - record.returned_at <= record.seconds
        seconds = min(2 * record.seconds if record.seconds and lasted else rule.seconds, rule.most_seconds)
        record.seconds, record.until, record.probe_until = seconds, now + seconds, -1.0
        self._changed(
            EjectionChange(
                target=name[0],
                model=name[1],
                seconds=seconds,
                failures=record.results.bit_count(),
                attempts=record.count,
                error=error,
            )
        )
