"""Check captured streams: bytes in, violations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from penstock.captures.reader import Capture, NumberedFrames, OneDocument
from penstock.dialects.recognition import Opening, format_of_bytes
from penstock.errors import FrameTooLarge, PenstockError
from penstock.sse import Frame
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation

AT_END = "at the end"
"""The place of what shows only at the end of a stream."""


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


class OtherFormat(PenstockError):  # noqa: N818 - named after what was found
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
        for _, frame in frames:
            if self._opening is None:
                break
            # One by one: what a stream is must not depend on how it was read.
            is_full = self._opening.add([frame])
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
    where = AT_END if at_end else f"event {violation.sequence}"
    return LocatedViolation(violation.rule, violation.sequence, violation.message, where, line)
