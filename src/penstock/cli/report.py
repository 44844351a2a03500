"""Report what `penstock check` finds: line by line, with a drawn timeline, or as one JSON object.

`REPORTERS` has a reporter for each format. Those for continuous integration are in `ci_reports.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.captures.stream_check import LocatedViolation
from penstock.cli.check_results import CheckedSource, Reporter, summary
from penstock.cli.ci_reports import GitHubReporter, JUnitReporter
from penstock.cli.terminal import Terminal, write_error
from penstock.cli.terminal_text import escaped
from penstock.cli.timeline import Timeline


class TextReporter(Reporter):
    """One line per violation, and a verdict for each source."""

    def found(self, source: CheckedSource, violation: LocatedViolation) -> None:
        terminal = self.terminal
        place = f"{source.name}:{violation.line}: " if violation.line else f"{source.name}: "
        name = terminal.clean(place) if self.is_named else ""
        breaks = f" (breaks: {violation.breaks})" if violation.breaks else ""
        message = terminal.clean(violation.message)
        rule = terminal.paint(violation.rule, "red")
        terminal.line(f"{name}{rule}  {violation.where}: {message}{terminal.paint(breaks, 'dim')}")

    def checked(self, source: CheckedSource) -> None:
        if source.problem:
            write_error(escaped(self.terminal.conceal(source.problem)))
            return
        terminal = self.terminal
        name = terminal.clean(f"{source.name}: ") if self.is_named else ""
        terminal.line(name + terminal.paint(source.verdict, "green" if source.is_lawful else "red"))

    def finish(self, sources: Sequence[CheckedSource]) -> None:
        if len(sources) > 1:
            self.terminal.line(summary(sources))
        found = [violation for source in sources for violation in source.violations]
        tolerated = sum(1 for violation in found if violation.is_tolerated)
        if tolerated and not self.tolerant:
            self.terminal.note(f"known clients tolerate {tolerated} of {len(found)}: --tolerant hides those")


class TimelineReporter(TextReporter):
    """The same, with a drawing of each stream before its verdict."""

    def __init__(self, terminal: Terminal, *, tolerant: bool = False, is_named: bool = False) -> None:
        super().__init__(terminal, tolerant=tolerant, is_named=is_named)
        self._timeline = Timeline()

    def frame(self, position: int, data: str) -> None:
        self._timeline.add(position, data)

    def found(self, source: CheckedSource, violation: LocatedViolation) -> None:
        self._timeline.mark(violation.sequence)
        super().found(source, violation)

    def checked(self, source: CheckedSource) -> None:
        terminal = self.terminal
        timeline, self._timeline = self._timeline, Timeline()
        if not source.problem:
            drawn = timeline.draw(terminal.width, terminal.unicode)
            for line in ["", *drawn, ""] if source.violations else [*drawn, ""]:
                terminal.line(terminal.clean(line))
        super().checked(source)


class JsonReporter(Reporter):
    """One JSON object for the run. If sources are named, it has a list with an object for each."""

    def checked(self, source: CheckedSource) -> None:
        if source.problem:
            write_error(escaped(self.terminal.conceal(source.problem)))

    def finish(self, sources: Sequence[CheckedSource]) -> None:
        if self.is_named:
            files = [self._named(each) for each in sources]
            self._print({"lawful": all(each.is_lawful for each in sources), "files": files})
        elif not sources[0].problem:
            self._print(self._result(sources[0]))

    def _print(self, result: dict[str, Any]) -> None:
        self.terminal.result(json.dumps(result))

    def _result(self, source: CheckedSource) -> dict[str, Any]:
        conceal = self.terminal.conceal
        violations = [
            {"rule": each.rule, "sequence": each.sequence, "message": conceal(each.message)}
            for each in source.violations
        ]
        return {"lawful": source.is_lawful, "events": source.events, "violations": violations}

    def _named(self, source: CheckedSource) -> dict[str, Any]:
        result = {"file": self.terminal.conceal(source.name), **self._result(source)}
        for shown, violation in zip(result["violations"], source.violations, strict=True):
            shown["line"] = violation.line or None
        if source.problem:
            result |= {"lawful": None, "error": self.terminal.conceal(source.problem)}
        return result


REPORTERS: dict[str, type[Reporter]] = {
    "text": TextReporter,
    "timeline": TimelineReporter,
    "json": JsonReporter,
    "github": GitHubReporter,
    "junit": JUnitReporter,
}
"""The reporter of each format. A timeline is text, with `--timeline`."""
