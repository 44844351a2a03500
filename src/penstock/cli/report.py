"""Report the checker's findings: line by line, as one JSON object, or with a drawn timeline."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.capture import Capture
from penstock.cli.terminal import Terminal
from penstock.cli.timeline import Timeline
from penstock.dialects.recognition import Opening, format_of_bytes
from penstock.errors import FrameTooLarge
from penstock.sse import Frame
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation


class OtherFormat(Exception):  # noqa: N818 - named after what was found
    """The stream is in another API format. Nothing was reported."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Check:
    """One run: pass frames to the checker, and violations to the terminal or the JSON result."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self.terminal = terminal
        self._options = options
        self._timeline = Timeline() if options.timeline else None
        self._checker: StreamChecker | None = None
        self._violations: list[Violation] = []
        self._opening: Opening | None = Opening("responses")
        """The first frames, until it is known that they are not in another API format."""

    @property
    def events(self) -> int:
        return self._checker.events if self._checker else 0

    def stream(self, chunks: Iterable[bytes], transport: str) -> None:
        """Check a stream to its end. Raise `OtherFormat` if it is not one of OpenResponses events."""
        capture = Capture(transport)
        size = 0
        try:
            for chunk in chunks:
                size += len(chunk)
                self._feed(capture, chunk)
            self._feed(capture, None)
        except FrameTooLarge as error:
            self.report("read.limit", f"{error}; the rest was not read", f"event {self.events}")
        for violation in self._checker_for(capture).end():
            at_end = violation.sequence >= self.events
            self._found(violation, "at the end" if at_end else f"event {violation.sequence}")
        if size and not self.events:
            self.terminal.note(
                f"no events found in {size} bytes, read as {capture.transport}. Is it a stream? "
                "Use --transport to read it differently"
            )

    def report(self, rule: str, message: str, where: str) -> None:
        """Report a violation that the checker cannot see, because it is not in an event."""
        self._found(Violation(rule=rule, sequence=self.events, message=message), where)

    def verdict(self) -> int:
        """Print the result and return the exit code."""
        if self._options.json:
            self._print_json()
        else:
            self._print_text()
        return PROBLEM if self._violations else OK

    def _feed(self, capture: Capture, chunk: bytes | None) -> None:
        frames = capture.end() if chunk is None else self._frames(capture, chunk)
        if self._opening is not None:
            is_full = self._opening.add(frames)
            if name := self._opening.other_format():
                raise OtherFormat(name)
            if is_full or self._opening.is_expected():
                self._opening = None
        for frame in frames:
            checker = self._checker_for(capture)
            position = checker.events
            violations = checker.feed_frame(frame.event, frame.data)
            if self._timeline:
                self._timeline.add(position, frame.data)
            for violation in violations:
                self._found(violation, f"event {violation.sequence}")

    def _frames(self, capture: Capture, chunk: bytes) -> list[Frame]:
        """Return the frames of these bytes. One JSON array is refused, whatever it contains."""
        try:
            return capture.feed(chunk)
        except UsageError:
            name = format_of_bytes(chunk, "responses") if chunk.lstrip().startswith(b"[") else ""
            if name not in ("", "responses"):
                raise OtherFormat(name) from None
            raise

    def _checker_for(self, capture: Capture) -> StreamChecker:
        """Return the checker. It is created once the transport is detected."""
        if self._checker is None:
            options = self._options
            self._checker = StreamChecker(
                accent=options.accent, transport=capture.transport, tolerant=options.tolerant
            )
        return self._checker

    def _found(self, violation: Violation, where: str) -> None:
        self._violations.append(violation)
        if self._timeline:
            self._timeline.mark(violation.sequence)
        if self._options.json:
            return
        terminal = self.terminal
        rule = RULES.get(violation.rule)
        breaks = f" (breaks: {rule.breaks.rstrip('.')})" if rule and rule.breaks else ""
        message = terminal.clean(violation.message)
        terminal.line(
            f"{terminal.paint(violation.rule, 'red')}  {where}: {message}{terminal.paint(breaks, 'dim')}"
        )

    def _print_json(self) -> None:
        clean = self.terminal.conceal
        violations = [
            {"rule": each.rule, "sequence": each.sequence, "message": clean(each.message)}
            for each in self._violations
        ]
        result = {"lawful": not violations, "events": self.events, "violations": violations}
        self.terminal.line(json.dumps(result))

    def _print_text(self) -> None:
        terminal, found = self.terminal, len(self._violations)
        if self._timeline:
            drawn = self._timeline.draw(terminal.width, terminal.unicode)
            for line in ["", *drawn, ""] if found else [*drawn, ""]:
                terminal.line(terminal.clean(line))
        events = _count(self.events, "event")
        if not found:
            terminal.line(terminal.paint(f"lawful: {events}", "green"))
            return
        terminal.line(terminal.paint(f"{_count(found, 'violation')} in {events}", "red"))
        strict = sum(1 for each in self._violations if each.rule in RULES and not RULES[each.rule].tolerant)
        if strict and not self._options.tolerant:
            terminal.note(f"known clients tolerate {strict} of {found}: --tolerant hides those")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
