"""One run of `penstock check`: its sources, and what is found in each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from penstock.captures.reader import OneDocument
from penstock.captures.stream_check import LocatedViolation, StreamCheck
from penstock.cli import OK, PROBLEM, USAGE, UsageError
from penstock.cli.check_results import CheckedSource, Reporter


class CheckRun:
    """One run of the command: checks sources one after the other, and reports what is found in each."""

    def __init__(self, reporter: Reporter, *, accent: str, tolerant: bool) -> None:
        self.reporter = reporter
        self.terminal = reporter.terminal
        self._accent, self._tolerant = accent, tolerant
        self._sources: list[CheckedSource] = []

    @contextmanager
    def source(self, name: str, *, is_file: bool) -> Iterator[CheckedSource]:
        """Check what the block passes to `stream` and `report`. A `UsageError` ends only this source."""
        source = CheckedSource(name, is_file)
        self._sources.append(source)
        began = time.monotonic()
        try:
            yield source
        except OneDocument as error:
            source.problem = f"{name}: {error}"
        except UsageError as error:
            source.problem = str(error)
        source.seconds = time.monotonic() - began
        self.reporter.checked(source)

    def stream(self, source: CheckedSource, chunks: Iterable[bytes], transport: str) -> None:
        """Check a stream to its end. Raise `OtherFormat` if it is not one of OpenResponses events."""
        check = StreamCheck(
            accent=self._accent,
            transport=transport,
            tolerant=self._tolerant,
            on_frame=self.reporter.frame,
        )
        for violation in check.violations(chunks):
            source.events = check.events
            self._found(source, violation)
        source.events = check.events
        if check.size and not check.events:
            self.reporter.note(
                source,
                f"no events found in {check.size} bytes, read as {check.transport}. Is it a stream? "
                "Use --transport to read it differently",
            )

    def report(self, source: CheckedSource, rule: str, message: str, where: str) -> None:
        """Report a violation that the checker cannot see, because it is not in an event."""
        self._found(source, LocatedViolation(rule, source.events, message, where))

    def finish(self) -> int:
        """Print the result and return the exit code: a source that could not be checked matters most."""
        self.reporter.finish(self._sources)
        if any(each.problem for each in self._sources):
            return USAGE
        return PROBLEM if any(each.violations for each in self._sources) else OK

    def _found(self, source: CheckedSource, violation: LocatedViolation) -> None:
        if not source.is_file and violation.line:
            violation = replace(violation, line=0)
        source.violations.append(violation)
        self.reporter.found(source, violation)
