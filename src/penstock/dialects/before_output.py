"""What an answer contains before its first output.

Its deltas are held back, so that the turn can still move to another target. The beginning of the answer is
kept as well: if nothing in it can be read, the failure says which API format it looks like (decision 30).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.dialects.recognition import Advice, Opening
from penstock.errors import KINDS, OpenResponsesError, ServerError
from penstock.protocol.errors import Diagnostic
from penstock.sse import Frame
from penstock.stream.deltas import (
    BlockEnd,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    UpstreamInfo,
    UsageDelta,
)

Mask = Callable[[list[Delta]], list[Delta]]

_SILENT = (BlockStart, BlockEnd, UsageDelta, UpstreamInfo, DiagnosticDelta, EventDelta, FinishDelta)
"""Deltas that are no output: as long as there are no others, the turn can move to another target. An event
that is passed on without being understood is output only if the answer has the expected format."""

_NO_END = ("upstream_empty", "upstream_truncated")
"""Codes of a reader that got no end. It may not have understood anything."""


class BeforeOutput:
    """The deltas of one attempt before its first output, and the beginning of its answer."""

    __slots__ = ("_mask", "_opening", "deltas", "has_implied_finish")

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        """They may still be discarded."""
        self.has_implied_finish = False
        """Whether the end of the answer is a guess of the reader: there was no finish reason."""
        self._opening: Opening
        self._mask: Mask

    def prepare(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Start an attempt: discard the deltas of the last one, and hold the diagnostics of this one."""
        self.deltas = [DiagnosticDelta(each.code, each.message) for each in diagnostics]

    def open(self, dialect: str, advise: Advice, mask: Mask) -> None:
        """Start with an answer that is read in this dialect."""
        self._mask = mask
        self._opening = Opening(dialect, advise)
        self.has_implied_finish = False

    def add_bytes(self, data: bytes) -> None:
        """Keep bytes that contain no whole frame. Raise if they are certainly in another format."""
        if self._opening.add_bytes(data):
            self._opening.refuse_other_format()

    def set_body(self, body: bytes) -> None:
        """Keep an answer that is one document instead of a stream."""
        self._opening.set_body(body)

    def add_frames(self, frames: Iterable[Frame]) -> bool:
        """Keep frames. Return whether there are enough of them for a guess now."""
        return self._opening.add(frames)

    def hold(self, deltas: list[Delta], frames: Iterable[Frame], *, is_answered: bool) -> bool:
        """Hold back the deltas of these frames; return whether output begins with them. Raise if the answer
        fails, or has ended and nothing in it could be read."""
        first = next((each for each in deltas if not isinstance(each, _SILENT)), None)
        # What follows an error is not read, as when it arrives later.
        self.deltas += deltas[: deltas.index(first)] if isinstance(first, ErrorDelta) else deltas
        if not isinstance(first, ErrorDelta | None):
            return True
        is_full = self.add_frames(frames)
        if isinstance(first, ErrorDelta):
            raise self._failure(first, deltas)
        if is_full:
            self._opening.refuse_other_format()  # now, and not after minutes without any output
        has_event = any(isinstance(each, EventDelta) for each in deltas)
        if has_event and (self._opening.is_full or self._opening.is_expected()):
            return True
        if is_answered:
            self._require_readable()
        return False

    def refuse_other_format(self) -> None:
        """Raise if the answer has another format than that of the dialect."""
        self._opening.refuse_other_format()

    def release(self) -> list[Delta]:
        """Return the deltas, once: the turn stays with this target."""
        deltas, self.deltas = self.deltas, []
        return deltas

    def forget_answer(self) -> None:
        """Drop the beginning of the answer, once there is output."""
        self._opening.clear()

    def has_finish(self) -> bool:
        return any(isinstance(each, FinishDelta) for each in self.deltas)

    def _failure(self, error: ErrorDelta, deltas: list[Delta]) -> OpenResponsesError:
        """Return the failure for the first error of an answer without output. The reader may have
        misunderstood another format; but an error that the upstream reports is never replaced."""
        reported = [each for each in deltas if isinstance(each, ErrorDelta) and each.code not in _NO_END]
        if self._opening.other_format():
            if reported and self._opening.reports_error():
                return failure_of(reported[-1])
            self._opening.refuse_other_format()
        if not reported:
            self._require_readable()
        return failure_of(error)

    def _require_readable(self) -> None:
        """Raise if the answer has ended without output, and nothing in it was understood."""
        self._opening.refuse_other_format()
        if self._opening.is_expected():
            return
        understood = (UsageDelta, UpstreamInfo, *(() if self.has_implied_finish else (FinishDelta,)))
        if not any(isinstance(delta, understood) for delta in self.deltas):
            self._opening.refuse_unreadable(self._masked_text)

    def _masked_text(self, text: str) -> str:
        (delta,) = self._mask([ErrorDelta("upstream_invalid", text)])
        return delta.message if isinstance(delta, ErrorDelta) else ""


def failure_of(delta: ErrorDelta) -> OpenResponsesError:
    """Return the exception for a failure inside a stream."""
    kind = KINDS.get(delta.code, ServerError)
    return kind(delta.message, code=delta.code, param=delta.param, retry_after=delta.retry_after)
