"""Check captured streams: bytes in, violations out, which are passed to a reporter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from penstock.cli import OK, PROBLEM, USAGE, UsageError
from penstock.cli.capture import Capture, NumberedFrames, OneDocument
from penstock.cli.check_results import CheckedSource, LocatedViolation, Reporter
from penstock.dialects.recognition import Opening, format_of_bytes
from penstock.errors import FrameTooLarge
from penstock.sse import Frame
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import Violation


class OtherFormat(Exception):  # noqa: N818 - named after what was found
    """The stream is in another API format. Nothing was found in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class StreamCheck:
    """Checks the bytes of one stream. `on_frame` gets the position and the data of each frame."""

    def __init__(
        self,
        *,
        accent: str = "openresponses",
        transport: str = "auto",
        tolerant: bool = False,
        on_frame: Callable[[int, str], None] | None = None,
    ) -> None:
        self.size = 0
        """The bytes that were read."""
        self._accent, self._tolerant = accent, tolerant
        self._on_frame = on_frame
        self._capture = Capture(transport)
        self._frames = NumberedFrames(self._capture)
        self._checker: StreamChecker | None = None
        self._opening: Opening | None = Opening("responses")
        """The first frames, until it is known that they are not in another API format."""

    @property
    def events(self) -> int:
        return self._checker.events if self._checker else 0

    @property
    def transport(self) -> str:
        """The transport, detected if none was given."""
        return self._capture.transport

    def violations(self, chunks: Iterable[bytes]) -> Iterator[LocatedViolation]:
        """Yield what is found in a stream, as soon as it is found. Raise `OtherFormat` if it is not one of
        OpenResponses events, and `OneDocument` if it is not a stream."""
        try:
            for chunk in chunks:
                self.size += len(chunk)
                yield from self._check(self._feed(chunk))
            yield from self._check(self._frames.end())
        except FrameTooLarge as error:
            message = f"{error}; the rest was not read"
            yield LocatedViolation(
                "read.limit", self.events, message, f"event {self.events}", self._frames.line
            )
        for violation in self._started().end():
            yield located(violation, self.events, self._frames.line)

    def _feed(self, chunk: bytes) -> list[tuple[int, Frame]]:
        """Return the frames of these bytes. One JSON array is refused, whatever it contains."""
        try:
            return self._frames.feed(chunk)
        except OneDocument:
            name = format_of_bytes(chunk, "responses") if chunk.lstrip().startswith(b"[") else ""
            if name not in ("", "responses"):
                raise OtherFormat(name) from None
            raise

    def _check(self, frames: list[tuple[int, Frame]]) -> Iterator[LocatedViolation]:
        if self._opening is not None:
            is_full = self._opening.add(frame for _, frame in frames)
            if name := self._opening.other_format():
                raise OtherFormat(name)
            if is_full or self._opening.is_expected():
                self._opening = None
        for line, frame in frames:
            checker = self._started()
            position = checker.events
            violations = checker.feed_frame(frame.event, frame.data)
            if self._on_frame:
                self._on_frame(position, frame.data)
            for violation in violations:
                yield located(violation, None, line)

    def _started(self) -> StreamChecker:
        """Return the checker. It is created once the transport is detected."""
        if self._checker is None:
            self._checker = StreamChecker(
                accent=self._accent, transport=self.transport, tolerant=self._tolerant
            )
        return self._checker


def located(violation: Violation, end: int | None, line: int = 0) -> LocatedViolation:
    """Return a violation with its place. `end` is the number of events, if the stream has ended."""
    at_end = end is not None and violation.sequence >= end
    where = "at the end" if at_end else f"event {violation.sequence}"
    return LocatedViolation(violation.rule, violation.sequence, violation.message, where, line)


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
