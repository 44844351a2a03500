"""What `penstock check` found in each of its sources, and the interface of its reporters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.captures.stream_check import LocatedViolation
from penstock.cli.terminal import Terminal


class CheckedSource(Struct):
    """One source and what was found in it so far."""

    name: str
    is_file: bool = True
    events: int = 0
    violations: list[LocatedViolation] = []
    problem: str = ""
    """Why it could not be checked, or not to its end."""
    seconds: float = 0.0

    @property
    def is_lawful(self) -> bool:
        return not self.violations and not self.problem

    @property
    def verdict(self) -> str:
        events = counted(self.events, "event")
        if self.problem:
            return "not checked"
        return (
            f"{counted(len(self.violations), 'violation')} in {events}"
            if self.violations
            else f"lawful: {events}"
        )


class Reporter:
    """Prints what a run of the command finds. `is_named`: the output says which source it is about."""

    def __init__(self, terminal: Terminal, *, tolerant: bool = False, is_named: bool = False) -> None:
        self.terminal = terminal
        self.tolerant = tolerant
        self.is_named = is_named

    def frame(self, position: int, data: str) -> None:
        """Called for each frame, before its violations."""

    def found(self, source: CheckedSource, violation: LocatedViolation) -> None:
        """Called for each violation as soon as it is found; the source contains it already."""

    def note(self, source: CheckedSource, text: str) -> None:
        """Called with hints for the user that are not part of the result."""
        self.terminal.note(f"{source.name}: {text}" if self.is_named else text)

    def checked(self, source: CheckedSource) -> None:
        """Called at the end of each source, also if it could not be checked."""

    def finish(self, sources: Sequence[CheckedSource]) -> None:
        """Called once, after all sources."""


def summary(sources: Sequence[CheckedSource]) -> str:
    """Return the result of a whole run in one line: the verdict of a single source, or counts."""
    if len(sources) == 1:
        return sources[0].verdict
    unchecked = sum(1 for each in sources if each.problem)
    lawful = sum(1 for each in sources if each.is_lawful)
    counts = {"lawful": lawful, "unlawful": len(sources) - lawful - unchecked, "not checked": unchecked}
    shown = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    return f"{len(sources)} files: {shown}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
