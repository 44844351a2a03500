"""From an upstream's bytes to the events of a lawful stream: one path for the gateway, the library and tests.

A pipeline belongs to one response. It reads one answer, or several in a row: deltas before the first output
are held back, so that the turn can still move to another target. It does no I/O.

`feed` and `end` do everything. A caller that must yield during long work, or act before the terminal event,
uses the steps that they consist of: `read`, `read_end` and `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.dialects.before_output import BeforeOutput, Mask, failure_of
from penstock.dialects.client_rules import ClientRules, has_rules
from penstock.dialects.frames import DONE, read_object
from penstock.dialects.plan import Plan, ReadDialect, Reader
from penstock.dialects.recognition import Advice, advice
from penstock.dialects.repeated_chunks import MOST_MISSES, RepeatedChunk, RepeatsText
from penstock.errors import BridgeError, FrameTooLarge, OpenResponsesError, ProtocolError
from penstock.failures import ERROR_TYPES
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event
from penstock.protocol.response import Response, Usage
from penstock.sse import CONTENT_TYPE, DEFAULT_LIMIT, Decoder, Frame, without_blanks
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase

FRAMES_AT_ONCE = 32
"""Frames that `read` translates before it yields to the caller: one read may contain thousands."""
MOST_DELTAS = 4096
"""How many deltas may be in these frames, or in an answer that is not streamed: they are applied at once."""

PLAIN = frozenset({TextDelta, RefusalDelta, ReasoningDelta, SummaryDelta, UsageDelta})
"""What the model writes, and token counts: there is nothing in them to mask. The same is true of fragments of
arguments."""

_IN_PROGRESS = ResponseStreamPhase.IN_PROGRESS  # on the hot path a name is cheaper than an enum member
_BLANK_LINE = b"\n\n"
_LONG_READ = 2048
"""Bytes. A longer read probably has several chunks."""

Estimate = Callable[[], UsageDelta | None]


class FrameDecoder(Protocol):
    """Turns bytes into frames: `sse.Decoder` for server-sent events, another decoder for a capture."""

    def feed(self, data: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]: ...


class Pipeline:
    """`sign` extends the message of a failure; `estimate` counts usage that the upstream does not report."""

    __slots__ = (
        "_before_output",
        "_body",
        "_decoder",
        "_dialect",
        "_estimate",
        "_machine",
        "_mask",
        "_may_be_document",
        "_plan",
        "_reader",
        "_repeated",
        "_rules",
        "_sign",
        "failure",
        "has_output",
        "is_answered",
        "upstream_id",
        "usage_is_estimated",
    )

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
        self._rules: ClientRules | None = None
        """Created for the first delta that they concern."""
        self._repeated: RepeatedChunk
        self._may_be_document = False
        """Before the first bytes: whether the answer may still be one JSON document instead of a stream."""
        self._body: bytearray | None = None
        """The bytes received of an answer that is one JSON document."""
        self._before_output = BeforeOutput()
        self.has_output = False
        """Whether there is output. From then on, the turn cannot move to another target."""
        self.is_answered = False
        """Whether the upstream has sent everything, or failed. Some servers keep the connection open after
        that (ask A10)."""
        self.failure: OpenResponsesError | None = None
        """The failure that ended the answer after its first output. `finish` reports it."""
        self.upstream_id = ""
        self.usage_is_estimated = False

    # Attempts

    def prepare(self, diagnostics: Iterable[Diagnostic] = (), echo: Mapping[str, Any] | None = None) -> None:
        """Start an attempt: discard what the last attempt held back, and hold this one's diagnostics. `echo`
        has fields of the response that say what this attempt sends."""
        self._before_output.prepare(diagnostics)
        if echo:
            self._machine.echo(**echo)

    def open(
        self,
        dialect: ReadDialect,
        plan: Plan,
        *,
        content_type: str = CONTENT_TYPE,
        decoder: FrameDecoder | None = None,
        mask: Mask = lambda deltas: deltas,
        advise: Advice = advice,
    ) -> None:
        """Start reading an answer. `mask` removes secrets from what the upstream reports about itself.
        `advise` says what to do about an answer in another API format."""
        self._dialect, self._plan, self._mask = dialect, plan, mask
        self._reader, self._decoder = dialect.reader(plan), decoder or Decoder(DEFAULT_LIMIT)
        self._rules = None
        self._may_be_document, self._body = content_type != CONTENT_TYPE, None
        self._repeated = RepeatedChunk()
        self._before_output.open(dialect.name, advise, mask)
        self.is_answered = False

    # In one call

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes cause. Bytes after the end are ignored (ask A12)."""
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
        """Return the last events, among them the one terminal event: the upstream has ended."""
        if self.is_over:
            return []
        try:
            events = self.read_end()
        except OpenResponsesError as error:
            return self._fail_with(error)
        return events + self.finish()

    # Step by step

    def read(self, data: bytes) -> Iterable[list[Event]]:
        """Return the same events, a few frames at a time, without the terminal event. Stop reading when
        `is_answered` is set. Raise a failure before the first output: the turn may move to another target."""
        if self._may_be_document:
            # Some servers never stream, and some do not declare a content type.
            self._body = bytearray() if without_blanks(data)[:1] in (b"{", b"[") else None
            self._may_be_document = False
        if self._body is not None:
            return self._read_body(self._body, data)
        text = self._repeated.text_in(data)
        if text is not None:
            return (self._write([text]),)
        return self._read_in_steps(data) if len(data) > _LONG_READ else self._read_piece(data)

    def read_end(self) -> list[Event]:
        """Return the events before the terminal event, once the upstream has ended. Raise like `read`."""
        events: list[Event] = []
        if not self.is_answered:
            deltas, self.is_answered = self._rest(), True
            events = self._accept(deltas)
        return events + self._release()

    def read_cut(self) -> list[Event]:
        """Return the events of what was received before the connection broke and not passed on yet. Before
        the first output there are none, because another target may still answer, unless the answer
        `has_finished`. Raise if it was in another API format, which explains more than the break."""
        events: list[Event] = []
        if self.has_output:
            rest: list[Delta] = [delta for delta in self._rest() if not isinstance(delta, ErrorDelta)]
            events = self._apply(self._permitted(rest))
        else:
            self._before_output.refuse_other_format()
        return events + self._release() if self.has_finished else events

    def finish(self) -> list[Event]:
        """Return the terminal event, once everything is read."""
        if self.is_over:
            return []
        if self.failure is not None:
            return self._fail_with(self.failure)
        self._fill_usage()
        try:
            return self._machine.finish()
        except BridgeError as error:
            return self.fail(error.code, error.message)

    # Called by the turn

    def start(self) -> list[Event]:
        """Return the first events of the stream, unless it has started."""
        return self._machine.start() if self.is_idle else []

    def heartbeat(self) -> list[Event]:
        return [] if self.is_over else self._machine.heartbeat()

    def fail(
        self, code: str, message: str, *, param: str | None = None, retry_after: float | None = None
    ) -> list[Event]:
        """End with a failure. Of the deltas held back, diagnostics and usage are kept."""
        if self.is_over:
            return []
        events = self.start()
        for delta in self._before_output.release():
            if isinstance(delta, DiagnosticDelta | UsageDelta):
                events += self._machine.apply(delta)
        self._fill_usage()
        if (
            code == "rate_limit_exceeded"
            and retry_after is not None
            and "try again in" not in message.lower()
        ):
            message = (
                f"{message} Please try again in {retry_after:g}s."  # the text that Codex parses (ask E5)
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
        """Whether the upstream sent a finish reason. A disconnect after that loses nothing (ask A1)."""
        return self._before_output.has_finish() or self._machine.deferred_reason is not None

    @property
    def lacks_usage(self) -> bool:
        usage = self._machine.current_usage
        return usage is None or not (usage.input_tokens and usage.output_tokens and self.has_finished)

    @property
    def item_count(self) -> int:
        """The number of items in the output so far."""
        return self._machine.item_count

    @property
    def snapshot(self) -> Response:
        """The current state of the response."""
        return self._machine.snapshot

    # Internals

    def _read_in_steps(self, data: bytes) -> Iterator[list[Event]]:
        """Read many chunks. If they may repeat, one is read alone, so that the next ones are recognised."""
        begin, misses = 0, 0 if isinstance(self._reader, RepeatsText) else MOST_MISSES
        while begin < len(data) and not self.is_answered:
            texts, begin = self._repeated.texts_in(data, begin)
            if texts:
                misses = 0
                yield self._write(texts)
                continue
            # Before the first output, an error must not be read alone: the stream would have begun by then.
            count = 1 if self.has_output else FRAMES_AT_ONCE
            end = _after_frames(data, begin, count) if misses < MOST_MISSES else len(data)
            yield from self._read_piece(data[begin:end])
            begin, misses = end, misses + 1

    def _read_piece(self, data: bytes) -> Iterable[list[Event]]:
        self._repeated.forget()
        try:
            frames = self._decoder.feed(data)
        except FrameTooLarge as error:
            return (self._refuse(_too_large(error)),)
        if len(frames) > FRAMES_AT_ONCE:
            return self._translate_in_steps(frames)
        if not frames:
            if not self.has_output:
                self._before_output.add_bytes(data)
            return ()
        deltas = self._read_frames(frames)
        if len(deltas) == 1 and deltas[0].__class__ in PLAIN and self.has_output and self.failure is None:
            # Nearly every read is one piece of what the model writes: nothing has to be masked or permitted.
            if len(frames) == 1:
                self._learn(data, frames[0], deltas[0])
            return (self._apply(deltas),)
        return (self._accept(deltas, frames),)

    def _learn(self, data: bytes, frame: Frame, delta: Delta) -> None:
        """Remember bytes that are one piece of text: the next one may repeat everything else."""
        reader = self._reader
        if isinstance(reader, RepeatsText) and reader.text_key and isinstance(delta, TextDelta):
            self._repeated.learn(data, frame, reader.text_key, delta.text)

    def _write(self, texts: list[str]) -> list[Event]:
        """Return the events of pieces of text that need no decoding."""
        events: list[Event] = []
        try:
            for text in texts:
                events += self._machine.text(text)
        except BridgeError:
            return self._apply([TextDelta(text) for text in texts])  # which reports it
        return events

    def _read_body(self, body: bytearray, data: bytes) -> Iterable[list[Event]]:
        body += data
        if len(body) <= DEFAULT_LIMIT:
            return ()
        message = f"the upstream's answer is larger than {DEFAULT_LIMIT} bytes"
        return (self._refuse(ErrorDelta("upstream_invalid", message)),)

    def _translate_in_steps(self, frames: list[Frame]) -> Iterator[list[Event]]:
        for begin in range(0, len(frames), FRAMES_AT_ONCE):
            some = frames[begin : begin + FRAMES_AT_ONCE]
            yield self._accept(self._read_frames(some), some)
            if self.is_answered:
                return

    def _read_frames(self, frames: list[Frame]) -> list[Delta]:
        """Return the deltas of these frames. Nothing after the end of an answer is read."""
        reader = self._reader
        deltas: list[Delta] = []
        for frame in frames:
            deltas += reader.feed(frame)
            if reader.is_over:
                self.is_answered = True
                return deltas + self._end_reader()
        return deltas

    def _end_reader(self) -> list[Delta]:
        deltas = self._reader.end()
        self._before_output.has_implied_finish = any(isinstance(delta, FinishDelta) for delta in deltas)
        return deltas

    def _rest(self) -> list[Delta]:
        if self._body is not None:
            body = bytes(self._body)
            self._before_output.set_body(body)
            return self._dialect.read_body(self._plan, body)
        try:
            frames = [frame for frame in self._decoder.end() if not _is_cut(frame)]
        except FrameTooLarge as error:
            return [_too_large(error)]
        if not self.has_output:
            self._before_output.add_frames(frames)
        deltas = self._read_frames(frames)
        return deltas if self.is_answered else deltas + self._end_reader()

    def _refuse(self, error: ErrorDelta) -> list[Event]:
        self.is_answered = True
        return self._accept([error])

    def _accept(self, deltas: list[Delta], frames: Iterable[Frame] = ()) -> list[Event]:
        """Apply the deltas of these frames, or hold them back before the first output."""
        if len(deltas) > MOST_DELTAS:
            message = (
                f"the upstream sent {len(deltas):,} changes at once; at most {MOST_DELTAS:,} are accepted"
            )
            deltas = [*deltas[:MOST_DELTAS], ErrorDelta("upstream_invalid", message)]
            self.is_answered = True
        deltas = self._permitted(deltas)
        if self.has_output:
            return self._apply(deltas)
        if not self._before_output.hold(deltas, frames, is_answered=self.is_answered):
            return self.start()
        self.has_output = True
        self._before_output.forget_answer()
        return self._release()

    def _permitted(self, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas without secrets, and as this client may receive them (decision 1)."""
        for delta in deltas:
            if delta.__class__ not in PLAIN and not (isinstance(delta, ToolCallDelta) and delta.fragment):
                deltas = self._mask(deltas)
                break
        if self._rules is None:
            if not has_rules(deltas):
                return deltas  # the usual case
            self._rules = ClientRules(self._plan)
        return self._rules.apply(deltas)

    def _release(self) -> list[Event]:
        """Apply the deltas held back: the turn stays with this target."""
        return self._apply(self._before_output.release())

    def _apply(self, deltas: list[Delta]) -> list[Event]:
        events: list[Event] = []
        if self._machine.phase is not _IN_PROGRESS:
            if self.is_over:
                return events
            events = self.start()
        if self.failure is not None:
            return events
        apply = self._machine.apply
        for delta in deltas:
            if delta.__class__ not in PLAIN:
                if isinstance(delta, ErrorDelta):
                    self._stop_at(failure_of(delta))
                    break
                if isinstance(delta, UpstreamInfo) and delta.id:
                    self.upstream_id = delta.id
            try:
                events += apply(delta)
            except (BridgeError, ValueError) as error:
                message = f"the upstream's answer cannot be translated: {error}"
                self._stop_at(ProtocolError(message, code="upstream_invalid"))
                break
        return events

    def _stop_at(self, failure: OpenResponsesError) -> None:
        self.failure, self.is_answered = failure, True

    def _fail_with(self, error: OpenResponsesError) -> list[Event]:
        return self.fail(error.code, error.message, param=error.param, retry_after=error.retry_after)

    def _fill_usage(self) -> None:
        """Add usage that the upstream did not report, marked as an estimate (decision 11; ask D1, ask D4)."""
        counted = self._estimate() if self.lacks_usage else None
        if counted is None:
            return
        usage = self._machine.current_usage
        if usage is not None:
            counted = _missing_usage(usage, counted)
        if counted.input_tokens is not None or counted.output_tokens is not None:
            self._machine.usage(counted)
            self.usage_is_estimated = True


def _after_frames(data: bytes, begin: int, count: int) -> int:
    """Return where so many more frames end. What may be anything else, as a comment, is not counted."""
    while count:
        blank = data.find(_BLANK_LINE, begin)
        if blank < 0:
            return len(data)
        count -= data.startswith(b"data:", begin)
        begin = blank + len(_BLANK_LINE)
    return begin


def _too_large(error: FrameTooLarge) -> ErrorDelta:
    return ErrorDelta("upstream_invalid", f"the upstream sent a frame that is too large: {error}")


def _is_cut(frame: Frame) -> bool:
    """Return whether the end of the stream cut this last frame off. Then it is not invalid: the reader
    reports the missing end."""
    data = frame.data.strip()
    return bool(data) and data != DONE and isinstance(read_object(frame), ErrorDelta)


def _missing_usage(usage: Usage, counted: UsageDelta) -> UsageDelta:
    """Return our counts where the upstream reported zero, or reported output only at the start, as Anthropic
    does. No two tokenizers differ so much that one counts twice the tokens of the other."""
    is_short = (counted.output_tokens or 0) > 2 * usage.output_tokens
    return UsageDelta(
        input_tokens=None if usage.input_tokens else counted.input_tokens,
        output_tokens=counted.output_tokens if is_short else None,
        reasoning_tokens=counted.reasoning_tokens if is_short else None,
        estimated=True,
    )
