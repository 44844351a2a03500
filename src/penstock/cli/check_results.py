"""What `penstock check` found in each of its sources, and the interface of its reporters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.cli.terminal import Terminal
from penstock.stream.checker.rules import RULES


class LocatedViolation(Struct, frozen=True):
    """A rule that a stream breaks, and where. Its message may contain text of the stream: clean it before it
    is printed."""

    rule: str
    sequence: int
    """The event's position in the stream, from 0; for what shows at the end, the number of events."""
    message: str
    where: str
    """The place for people, such as `event 4`."""
    line: int = 0
    """The line of the source on which the event begins, from 1; 0 if the source is not a file."""

    @property
    def breaks(self) -> str:
        """Which clients break, and how; empty if none is known."""
        rule = RULES.get(self.rule)
        return rule.breaks.rstrip(".") if rule else ""

    @property
    def is_tolerated(self) -> bool:
        rule = RULES.get(self.rule)
        return rule is not None and not rule.tolerant


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
