"""Where a broken rule is written down: once per fault, and only the rules of the mode."""

from __future__ import annotations

from penstock.stream.checker.rules import RULES, Violation


class Findings:
    """The violations of the event at hand, and a memory of what was said already."""

    def __init__(self, *, tolerant: bool) -> None:
        self.tolerant = tolerant
        self.position = 0
        """Where the event at hand stands in the stream."""
        self.count = 0
        self._fresh: list[Violation] = []
        self._told: set[tuple[str, object]] = set()

    def report(self, rule: str, message: str, about: object = None) -> None:
        """Note that `rule` is broken. With `about`, only the first report about that thing counts."""
        if self.tolerant and not RULES[rule].tolerant:
            return
        if about is not None:
            if (rule, about) in self._told:
                return
            self._told.add((rule, about))
        self.count += 1
        self._fresh.append(Violation(rule, self.position, message))

    def take(self) -> list[Violation]:
        """What was found since the last time."""
        if not self._fresh:
            return []
        fresh, self._fresh = self._fresh, []
        return fresh
