"""From an upstream's bytes to the events of a lawful stream: the same way for the gateway and everybody else.

A pipeline belongs to one response. It reads one answer, or several in a row: what an answer says before its
first output is held back, so that the response can still be given to another target. It does no I/O.

`feed` and `end` do everything. Whoever must not work for long without a pause, or wants to do something
before the terminal event, uses what they are made of: `read`, `read_end` and `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from penstock.dialects.frames import DONE, read_object
from penstock.dialects.plan import Plan, ReadDialect, Reader
from penstock.errors import KINDS, BridgeError, FrameTooLarge, OpenResponsesError, ProtocolError, ServerError
from penstock.failures import ERROR_TYPES
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event
from penstock.protocol.response import Response, Usage
from penstock.sse import DEFAULT_LIMIT, Decoder, Frame
from penstock.stream.deltas import (
    BlockEnd,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase

FRAMES_AT_ONCE = 32
"""One read may hold thousands of frames: so many are translated before `read` gives the caller a turn."""

_SILENT = (BlockStart, BlockEnd, UsageDelta, UpstreamInfo, DiagnosticDelta, FinishDelta)
"""Deltas that cause no output event: until another comes, another target can still be asked."""

_LEADING_SPACE = b"\xef\xbb\xbf \t\r\n"

Mask = Callable[[list[Delta]], list[Delta]]
Estimate = Callable[[], UsageDelta | None]


class FrameDecoder(Protocol):
    """What carries the frames: server-sent events (`sse.Decoder`), or something else in a capture."""

    def feed(self, data: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]: ...


class Pipeline:
    """`sign` adds to the message of each failure; `estimate` counts the usage where the upstream does not."""

    def __init__(
        self,
        machine: ResponseStreamStateMachine,
        *,
        sign: Callable[[str], str] = str,
        estimate: Estimate = lambda: None,
    ) -> None:
        self._machine, self._sign, self._estimate = machine, sign, estimate
        self._dialect: ReadDialect
        self._plan: Plan
        self._reader: Reader
        self._decoder: FrameDecoder
        self._mask: Mask
        self._may_be_whole = False
        """Before the first bytes: is it still open whether this is a stream or one JSON document?"""
        self._body: bytearray | None = None
        """What has come of an answer that is one JSON document."""
        self._held: list[Delta] = []
        """What was said before the first output, and may still be taken back."""
        self.has_output = False
        """Is there output? Then nobody else can be asked."""
        self.is_answered = False
        """Has the upstream said everything, or failed? Some servers keep the connection open then
        (ask A10)."""
        self.failure: OpenResponsesError | None = None
        """What ended the answer behind its first output. `finish` reports it."""
        self.upstream_id = ""
        self.usage_is_estimated = False

    # One answer after the other

    def prepare(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        """Begin an attempt: forget what the last one said, and hold what is known about this one."""
        self._held = [DiagnosticDelta(each.code, each.message) for each in diagnostics]

    def open(
        self,
        dialect: ReadDialect,
        plan: Plan,
        *,
        content_type: str = "text/event-stream",
        decoder: FrameDecoder | None = None,
        mask: Mask = lambda deltas: deltas,
    ) -> None:
        """Begin to read an answer. `mask` takes secrets out of what the upstream says of itself."""
        self._dialect, self._plan, self._mask = dialect, plan, mask
        self._reader, self._decoder = dialect.reader(plan), decoder or Decoder(DEFAULT_LIMIT)
        self._may_be_whole, self._body = content_type != "text/event-stream", None
        self.is_answered = False

    # All at once

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes cause. Whatever comes behind the end is ignored (ask A12)."""
        if self.is_over:
            return []
        events: list[Event] = []
        try:
            for each in self.read(data):
                events += each
        except OpenResponsesError as error:
            return events + self._fail_with(error)
        return events + (self.end() if self.is_answered else [])

    def end(self) -> list[Event]:
        """The upstream sends no more: the last events. With them the stream has its one terminal event."""
        if self.is_over:
            return []
        try:
            events = self.read_end()
        except OpenResponsesError as error:
            return self._fail_with(error)
        return events + self.finish()

    # Step by step

    def read(self, data: bytes) -> Iterator[list[Event]]:
        """The same events a few frames at a time, without the terminal event. No more is to be read when
        `is_answered` is set. A failure before the first output is raised: another target may be asked."""
        if self._may_be_whole:
            # Some servers never stream, and some do not say what they send.
            self._body = bytearray() if data.lstrip(_LEADING_SPACE)[:1] in (b"{", b"[") else None
            self._may_be_whole = False
        if self._body is not None:
            self._body += data
            if len(self._body) > DEFAULT_LIMIT:
                message = f"the upstream's answer is larger than {DEFAULT_LIMIT} bytes"
                yield self._refuse(ErrorDelta("upstream_invalid", message))
            return
        try:
            frames = self._decoder.feed(data)
        except FrameTooLarge as error:
            yield self._refuse(_too_large(error))
            return
        for begin in range(0, len(frames), FRAMES_AT_ONCE):
            deltas = self._read_frames(frames[begin : begin + FRAMES_AT_ONCE])
            if self._reader.is_over:
                deltas += self._reader.end()
                self.is_answered = True
            yield self._take(deltas)
            if self.is_answered:
                return

    def read_end(self) -> list[Event]:
        """What there is to say when nothing more comes. Raises like `read`."""
        events = [] if self.is_answered else self._take(self._rest())
        self.is_answered = True
        return events + self._release()

    def read_cut(self) -> list[Event]:
        """The connection broke: what had come and was not passed on yet. Before the first output that is
        nothing, because another target may say all of it, unless the answer `has_finished`."""
        events: list[Event] = []
        if self.has_output:
            whole: list[Delta] = [delta for delta in self._rest() if not isinstance(delta, ErrorDelta)]
            events = self._apply(self._mask(whole))
        return events + self._release() if self.has_finished else events

    def finish(self) -> list[Event]:
        """The terminal event, when everything was read."""
        if self.is_over:
            return []
        if self.failure is not None:
            return self._fail_with(self.failure)
        self._fill_usage()
        try:
            return self._machine.finish()
        except BridgeError as error:
            return self.fail(error.code, error.message)

    # From outside

    def start(self) -> list[Event]:
        """The beginning of the stream, unless it has begun."""
        return self._machine.start() if self.is_idle else []

    def heartbeat(self) -> list[Event]:
        return [] if self.is_over else self._machine.heartbeat()

    def fail(
        self, code: str, message: str, *, param: str | None = None, retry_after: float | None = None
    ) -> list[Event]:
        """End with a failure. What was held back is not lost where it is true without any output."""
        if self.is_over:
            return []
        events = self.start()
        held, self._held = self._held, []
        for delta in held:
            if isinstance(delta, DiagnosticDelta | UsageDelta):
                events += self._machine.apply(delta)
        self._fill_usage()
        if (
            code == "rate_limit_exceeded"
            and retry_after is not None
            and "try again in" not in message.lower()
        ):
            message = (
                f"{message} Please try again in {retry_after:g}s."  # the words that Codex looks for (ask E5)
            )
        type = ERROR_TYPES.get(code, "server_error")
        return events + self._machine.fail(code, self._sign(message), type=type, param=param)

    def cancel(self) -> list[Event]:
        if self.is_over:
            return []
        events = self.start()
        self._fill_usage()
        return events + self._machine.cancel()

    # State

    @property
    def is_idle(self) -> bool:
        return self._machine.phase is ResponseStreamPhase.IDLE

    @property
    def is_over(self) -> bool:
        return self._machine.phase not in (ResponseStreamPhase.IDLE, ResponseStreamPhase.IN_PROGRESS)

    @property
    def has_finished(self) -> bool:
        """Has the model said why it stopped? A break behind that takes nothing away (ask A1)."""
        held = any(isinstance(each, FinishDelta) for each in self._held)
        return held or self._machine.deferred_reason is not None

    @property
    def lacks_usage(self) -> bool:
        usage = self._machine.snapshot.usage
        return usage is None or not (usage.input_tokens and usage.output_tokens and self.has_finished)

    @property
    def snapshot(self) -> Response:
        """The response as it is now."""
        return self._machine.snapshot

    # Inside

    def _read_frames(self, frames: list[Frame]) -> list[Delta]:
        """What these frames say. Behind the end of an answer nothing is read, in whichever read it came."""
        deltas: list[Delta] = []
        for frame in frames:
            deltas += self._reader.feed(frame)
            if self._reader.is_over:
                break
        return deltas

    def _rest(self) -> list[Delta]:
        if self._body is not None:
            return self._dialect.read_body(self._plan, bytes(self._body))
        try:
            frames = [frame for frame in self._decoder.end() if not _is_half(frame)]
        except FrameTooLarge as error:
            return [_too_large(error)]
        return self._read_frames(frames) + self._reader.end()

    def _refuse(self, error: ErrorDelta) -> list[Event]:
        self.is_answered = True
        return self._take([error])

    def _take(self, deltas: list[Delta]) -> list[Event]:
        deltas = self._mask(deltas)
        if not self.has_output:
            self._held += deltas
            first = next((each for each in deltas if not isinstance(each, _SILENT)), None)
            if first is None:
                return self.start()
            if isinstance(first, ErrorDelta):
                raise failure_of(first)
            self.has_output = True
            return self._release()
        return self._apply(deltas)

    def _release(self) -> list[Event]:
        """What was held back: nobody else will be asked."""
        held, self._held = self._held, []
        return self._apply(held)

    def _apply(self, deltas: list[Delta]) -> list[Event]:
        events = self.start()
        for delta in deltas:
            if self.is_over or self.failure is not None:
                break
            if isinstance(delta, ErrorDelta):
                self._stop_at(failure_of(delta))
                break
            if isinstance(delta, UpstreamInfo) and delta.id:
                self.upstream_id = delta.id
            try:
                events += self._machine.apply(delta)
            except (BridgeError, ValueError) as error:
                message = f"what the upstream sent cannot be passed on: {error}"
                self._stop_at(ProtocolError(message, code="upstream_invalid"))
        return events

    def _stop_at(self, failure: OpenResponsesError) -> None:
        self.failure, self.is_answered = failure, True

    def _fail_with(self, error: OpenResponsesError) -> list[Event]:
        return self.fail(error.code, error.message, param=error.param, retry_after=error.retry_after)

    def _fill_usage(self) -> None:
        """Where the upstream told no usage, or not all of it, it is counted and marked as an estimate
        (decision 11; ask D1, ask D4)."""
        counted = self._estimate() if self.lacks_usage else None
        if counted is None:
            return
        usage = self._machine.snapshot.usage
        if usage is not None:
            counted = _missing(usage, counted)
        if counted.input_tokens is not None or counted.output_tokens is not None:
            self._machine.usage(counted)
            self.usage_is_estimated = True


def failure_of(delta: ErrorDelta) -> OpenResponsesError:
    """A failure inside of a stream, as an exception."""
    kind = KINDS.get(delta.code, ServerError)
    return kind(delta.message, code=delta.code, param=delta.param, retry_after=delta.retry_after)


def _too_large(error: FrameTooLarge) -> ErrorDelta:
    return ErrorDelta("upstream_invalid", f"the upstream sent too much at once: {error}")


def _is_half(frame: Frame) -> bool:
    """Was this last frame cut off by the end? Then it is not wrong: the reader says that there is more."""
    data = frame.data.strip()
    return bool(data) and data != DONE and isinstance(read_object(frame), ErrorDelta)


def _missing(usage: Usage, counted: UsageDelta) -> UsageDelta:
    """What was counted, for what the upstream gave as zero or only at the beginning, as Anthropic does: no
    two tokenizers are so far apart that one has twice the tokens of the other."""
    is_short = (counted.output_tokens or 0) > 2 * usage.output_tokens
    return UsageDelta(
        input_tokens=None if usage.input_tokens else counted.input_tokens,
        output_tokens=counted.output_tokens if is_short else None,
        reasoning_tokens=counted.reasoning_tokens if is_short else None,
        estimated=True,
    )
