"""The state machine that every stream goes through: deltas in, a lawful OpenResponses stream out.

It does no I/O, reads no clock and uses no randomness: the first snapshot, the time and the ids are passed in.
Each method returns the events that it caused. A refused call raises `BridgeError` and changes nothing.
Whatever came before, `finish`, `fail` and `cancel` end the stream with exactly one terminal event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import count
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from penstock.lenient import join_surrogates
from penstock.protocol.content import Annotation, JsonObject, LogProb
from penstock.protocol.errors import Diagnostic, ErrorPayload, IncompleteDetails, ResponseError
from penstock.protocol.events import EVENTS, MACHINE_EVENTS, ErrorEvent, Event, LifecycleEvent, UnknownEvent
from penstock.protocol.items import Item
from penstock.protocol.response import Response, Usage
from penstock.stream.blocks import Block, OpenTextPart
from penstock.stream.blockset import BlockSet
from penstock.stream.calls.assembler import ToolCallAssembler
from penstock.stream.calls.call_block import ToolCallBlock
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    Key,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.diagnostics import Diagnostics
from penstock.stream.hosted import NEVER_HOSTED, HostedItem
from penstock.stream.output import COMPLETED, INCOMPLETE, Output
from penstock.stream.phases import Lifecycle, Move, ResponseStreamPhase
from penstock.stream.usage import UsageTally
from penstock.tools.identity import ToolIdentityMap

INCOMPLETE_REASONS: dict[FinishReason, str] = {
    FinishReason.PAUSE: "pause_turn",
    FinishReason.STEERED: "steered",
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}
"""The finish reasons that make a response incomplete, and the reason that the client sees."""

_PRIORITY = {reason: priority for priority, reason in enumerate(FinishReason)}
_ID_LIMIT = 64
_PHASES = ("commentary", "final_answer")
_TEXT, _REFUSAL, _REASONING = BlockKind  # on the hot path a name is cheaper than an enum member


class DerivedIds:
    """Derives ids from the response's id: equally unique, the same on every run."""

    __slots__ = ("_next", "_stem")

    def __init__(self, response_id: str) -> None:
        self._stem = response_id.partition("_")[2] or response_id
        if len(self._stem) > _ID_LIMIT - 16:
            self._stem = sha256(self._stem.encode()).hexdigest()[:32]
        self._next = 0

    def __call__(self, prefix: str) -> str:
        number, self._next = self._next, self._next + 1
        return f"{prefix}_{self._stem}_{number}"


class ResponseStreamStateMachine:
    """One response. `deltas.py` lists its inputs; `apply` accepts any of them."""

    __slots__ = (
        "_assembler",
        "_blocks",
        "_clock",
        "_diagnostics",
        "_error_event",
        "_hosted",
        "_life",
        "_output",
        "_reason",
        "_response",
        "_tools",
        "_usage",
        "_used_call_ids",
    )

    def __init__(
        self,
        response: Response,
        *,
        clock: Callable[[], float],
        tools: ToolIdentityMap | None = None,
        used_call_ids: Collection[str] = (),
        new_id: Callable[[str], str] | None = None,
        error_event: bool = True,
    ) -> None:
        """`response` is the first snapshot, as `response_for` creates it from a request.

        `clock` returns the time in seconds. `used_call_ids` are the call ids of the conversation so far: none
        of them is used again. `new_id` creates an id from a prefix; by default ids are derived from the
        response's id. `error_event`: whether an `error` event precedes `response.failed`, as SSE clients
        expect; on a WebSocket `response.failed` is sent alone (decision 9).
        """
        self._response = response
        self._clock = clock
        self._error_event = error_event
        self._life = Lifecycle()
        self._diagnostics = Diagnostics()
        self._output = Output(count().__next__, new_id or DerivedIds(response.id))
        self._blocks = BlockSet(self._output)
        self._tools = tools
        self._used_call_ids = used_call_ids
        self._assembler: ToolCallAssembler | None = None
        self._hosted: dict[Key, HostedItem] = {}
        self._usage = UsageTally()
        self._reason: FinishReason | None = None

    @property
    def _calls(self) -> ToolCallAssembler:
        """The calls of the model; created for the first one, because most responses have none."""
        if self._assembler is None:
            tools = self._tools if self._tools is not None else ToolIdentityMap()
            self._assembler = ToolCallAssembler(self._output, tools, self._used_call_ids, self._diagnostics)
        return self._assembler

    # State

    @property
    def phase(self) -> ResponseStreamPhase:
        return self._life.phase

    @property
    def deferred_reason(self) -> FinishReason | None:
        """The finish reason that `finish()` will use."""
        return self._reason

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._diagnostics.entries

    @property
    def snapshot(self) -> Response:
        """The response in its current state. Built on demand, so deltas do not pay for it."""
        return replace(
            self._response,
            status=self._life.status,
            output=[slot.item for slot in self._output.slots],
            usage=self.current_usage,
            diagnostics=self.diagnostics or UNSET,
        )

    @property
    def item_count(self) -> int:
        """The number of items in the output so far."""
        return len(self._output.slots)

    @property
    def current_usage(self) -> Usage | None:
        """The usage as of now; None if none was reported."""
        return self._usage.usage if self._usage.is_known else None

    def apply(self, delta: Delta) -> list[Event]:
        """Process any delta; return its events."""
        handler = _HANDLERS.get(delta.__class__)
        if handler is None:
            raise TypeError(f"not a delta: {delta.__class__.__name__}")
        return handler(self, delta)

    # Start

    def start(self, *, queued: bool = False) -> list[Event]:
        self._life.move(Move.START, queued=queued)
        snapshot = self.snapshot  # both events have the same
        names = ("created", "queued" if queued else "in_progress")
        return [self._lifecycle(name, snapshot) for name in names]

    def begin(self) -> list[Event]:
        """End the wait of a queued response."""
        self._life.move(Move.BEGIN)
        return [self._lifecycle("in_progress")]

    def heartbeat(self) -> list[Event]:
        """Repeat `response.in_progress`: the one heartbeat that every client recognises (decision 10)."""
        if not self._life.queued:
            self._ready()
        return [self._lifecycle(self._life.status)]

    # Output of the model

    def text(
        self,
        text: str,
        block: Key | None = None,
        logprobs: list[LogProb] | None = None,
        part: Key | None = None,
    ) -> list[Event]:
        events = self._write(_TEXT, text, block, part)
        if logprobs and events:
            open_part, _ = self._blocks.part(_TEXT, block, part)
            assert isinstance(open_part, OpenTextPart), "a part of text is an OpenTextPart"
            events[-1] = open_part.with_logprobs(events[-1], logprobs)
        return events

    def refusal(self, text: str, block: Key | None = None, part: Key | None = None) -> list[Event]:
        return self._write(_REFUSAL, text, block, part)

    def reasoning(self, text: str, block: Key | None = None, part: Key | None = None) -> list[Event]:
        return self._write(_REASONING, text, block, part)

    def summary(self, text: str, part: Key = 0, block: Key | None = None) -> list[Event]:
        text = self._checked_text(text)
        if not text:
            return []
        summary, events = self._blocks.summary_part(part, block)
        events.append(summary.delta(text))
        return events

    def opaque(self, data: str, block: Key | None = None, call: Key | None = None) -> list[Event]:
        """Add reasoning that only the vendor can read."""
        data = self._checked_text(data)
        if not data:
            return []
        return self._blocks.opaque(data, block, alone=call is not None)

    def annotation(
        self, annotation: Annotation, block: Key | None = None, part: Key | None = None
    ) -> list[Event]:
        self._ready()
        return self._blocks.annotate(annotation, block, part)

    def start_block(self, block: Key, kind: BlockKind, phase: str | None = None) -> list[Event]:
        """Remember the phase of a block. There are no events until the block has content."""
        self._ready()
        if phase in _PHASES and kind is not BlockKind.REASONING:
            self._blocks.announce_phase(block, phase)
        elif phase is not None:
            self._diagnostics.add("unknown_phase", phase=phase)
        return []

    def end_block(self, block: Key, kind: BlockKind | None = None) -> list[Event]:
        self._ready()
        return self._blocks.end(block, kind)

    def tool_call(self, delta: ToolCallDelta) -> list[Event]:
        self._ready()
        return self._calls.feed(delta)

    def item(self, key: Key, item: Item, *, done: bool) -> list[Event]:
        """Add an item of a tool that the vendor runs. If it is done but not announced, announce it first."""
        self._ready()
        if item.type in NEVER_HOSTED:
            raise ValueError(
                f"an item of type {item.type!r} cannot be sent as a vendor's item; use its deltas"
            )
        hosted = self._hosted.get(key)
        call_id = self._calls.claim(item) if hosted is None else None
        if (hosted and not (done and hosted.is_open)) or call_id == "":
            self._diagnostics.add("repeated_item", type=item.type)
            return []
        events: list[Event] = []
        if hosted is None:
            item_id = self._output.item_id(item.type)
            hosted = self._hosted[key] = HostedItem(item, item_id=item_id, call_id=call_id)
            events += self._output.end_current()
            self._output.place(hosted)
            events.append(self._output.added(hosted))
        if done and getattr(item, "status", None) == INCOMPLETE:
            hosted.postponed = item  # no item may follow an incomplete one (decision 5)
        elif done:
            hosted.end(item, COMPLETED)
            events.append(self._output.done(hosted))
        return events

    def event(self, type: str, fields: JsonObject, key: Key | None = None) -> list[Event]:
        """Add an event of such an item, or an event without an item."""
        self._ready()
        if not type or type in MACHINE_EVENTS:
            raise ValueError(f"an event of type {type!r} can only be sent by the state machine itself")
        extra = {name: value for name, value in fields.items() if name not in ("type", "sequence_number")}
        if key is not None or type in EVENTS:  # every event with a known type belongs to an item
            hosted = self._hosted.get(key) if key is not None else None
            if hosted is None or not hosted.is_open:
                self._diagnostics.add("event_without_item", type=type)
                return []
            extra |= {"item_id": hosted.item_id, "output_index": hosted.output_index}
        return [UnknownEvent(type=type, sequence_number=self._output.number(), extra=extra)]

    # Metadata

    def usage(self, usage: UsageDelta) -> list[Event]:
        self._ready()
        self._usage.take(usage)
        return []

    def upstream_info(self, info: UpstreamInfo) -> list[Event]:
        self._ready()
        self._response = replace(
            self._response,
            model=info.model or self._response.model,
            service_tier=info.service_tier or self._response.service_tier,
        )
        return []

    def echo(self, **fields: Any) -> None:
        """Correct what the response says about its request, once it is known what the upstream was sent."""
        self._response = replace(self._response, **fields)

    def diagnostic(self, code: str, message: str) -> list[Event]:
        """Record a diagnostic of the dialect."""
        self._ready()
        self._diagnostics.report(code, message)
        return []

    # End

    def defer_finish(self, reason: FinishReason) -> list[Event]:
        """Note why the model stopped; more deltas may follow. Keep the reason with the higher priority
        (decision 6)."""
        self._ready()
        self._reason = self._prevailing(FinishReason(reason))
        return []

    def finish(self, reason: FinishReason | None = None) -> list[Event]:
        """End the response. Without any finish reason the upstream was cut off, and the response fails.

        Raise `bridge.stream.incomplete_tool_call` if the reason is a normal one and a call is incomplete: the
        stream is then still open, and `fail` ends it.
        """
        reason = self._reason if reason is None else self._prevailing(FinishReason(reason))
        self._life.check(Move.COMPLETE)
        if reason is None:
            return self.fail("upstream_truncated", "the upstream ended the stream without a finish reason")
        if reason in INCOMPLETE_REASONS:
            return self._truncate(Move.TRUNCATE, INCOMPLETE_REASONS[reason])
        self._calls.check_complete()
        now = max(int(self._clock()), self._response.created_at)  # the clock may have been set back meanwhile
        events = self._calls.settle_names()
        if self._calls.suppressed and not self._output.slots:
            message = "the model called only tools that the client does not allow or cannot run"
            return events + self.fail("tool_not_allowed", message)
        events += self._close_all(truncated=False)
        self._life.move(Move.COMPLETE)
        self._response = replace(self._response, completed_at=now)
        return [*events, self._ended("completed")]

    def cancel(self) -> list[Event]:
        """Cancel the response. Possible in every phase that is not an end."""
        return self._open_if_idle(Move.CANCEL) + self._truncate(Move.CANCEL, "cancelled")

    def fail(
        self, code: str, message: str, *, type: str = "server_error", param: str | None = None
    ) -> list[Event]:
        """End the response as failed. Possible in every phase that is not an end."""
        code = join_surrogates(code) or "server_error"
        message = join_surrogates(message) or "the upstream gave no reason"
        events = self._open_if_idle(Move.FAIL) + self._close_all(truncated=True)
        if self._error_event:
            error = ErrorPayload(type=type, code=code, message=message, param=param)
            events.append(
                ErrorEvent(
                    sequence_number=self._output.number(),
                    error=error,
                    code=code,
                    message=message,
                    param=param,
                )
            )
        self._life.move(Move.FAIL)
        self._response = replace(self._response, error=ResponseError(code=code, message=message))
        return [*events, self._ended("failed")]

    # Internals

    def _ready(self) -> None:
        """Raise `BridgeError` unless deltas are allowed now."""
        if not self._life.streaming:
            self._life.refuse()

    def _text_delta(self, delta: TextDelta) -> list[Event]:
        if delta.logprobs:
            return self.text(delta.text, delta.block, delta.logprobs, delta.part)
        return self._write(_TEXT, delta.text, delta.block, delta.part)

    def _reasoning_delta(self, delta: ReasoningDelta) -> list[Event]:
        return self._write(_REASONING, delta.text, delta.block, delta.part)

    def _write(self, kind: BlockKind, text: str, block: Key | None, part: Key | None) -> list[Event]:
        """Add text to the open part of this kind, or to a new one."""
        if text.__class__ is not str or not text.isascii() or not self._life.streaming:
            text = self._checked_text(text)
        if not text:
            return []
        open_part, events = self._blocks.part(kind, block, part)
        events.append(open_part.delta(text))
        return events

    def _checked_text(self, text: str) -> str:
        """Return text that can be encoded; raise `BridgeError` unless deltas are allowed now."""
        if not self._life.streaming:
            self._life.refuse()
        if text.__class__ is not str:
            raise TypeError(f"text must be a string, not {text.__class__.__name__}")
        return text if text.isascii() else join_surrogates(text)

    def _prevailing(self, reason: FinishReason) -> FinishReason:
        known = self._reason
        return reason if known is None or _PRIORITY[reason] > _PRIORITY[known] else known

    def _open_if_idle(self, move: Move) -> list[Event]:
        self._life.check(move)
        return self.start() if self._life.phase is ResponseStreamPhase.IDLE else []

    def _truncate(self, move: Move, reason: str) -> list[Event]:
        events = self._close_all(truncated=True)
        self._life.move(move)
        self._response = replace(self._response, incomplete_details=IncompleteDetails(reason=reason))
        return [*events, self._ended("incomplete")]

    def _close_all(self, *, truncated: bool) -> list[Event]:
        """Close every open item, in output order, and report what had to be dropped."""
        events: list[Event] = []
        status = INCOMPLETE if truncated else COMPLETED
        slots: list[tuple[Block | ToolCallBlock | HostedItem, str]] = [
            *((block, status) for block in self._blocks.take_open()),
            *self._calls.open_calls(truncated=truncated),
            *((item, status) for item in self._hosted.values() if item.is_open),
        ]
        if truncated:
            for block, announced in self._calls.settle_rest():
                events += announced
                slots.append((block, INCOMPLETE))
        for slot, status in sorted(slots, key=lambda pair: pair[0].output_index):
            events += self._close(slot, status)
        for _ in range(self._blocks.lost_annotations):
            self._diagnostics.add("annotation_without_text")
        if not self._usage.consistent:
            self._diagnostics.add("usage_inconsistent")
        if self._usage.is_known and self._usage.estimated:
            self._diagnostics.add("usage_estimated")
        return events

    def _close(self, slot: Block | ToolCallBlock | HostedItem, status: str) -> list[Event]:
        if isinstance(slot, Block):
            return slot.close(status)
        if isinstance(slot, ToolCallBlock):
            return self._calls.close(slot, status)
        slot.end(slot.postponed, status)
        return [self._output.done(slot)]

    def _ended(self, name: str) -> Event:
        """Return the terminal event."""
        self._output.end_current = list  # break a cycle that would keep a long text until garbage collection
        return self._lifecycle(name)

    def _lifecycle(self, name: str, snapshot: Response | None = None) -> Event:
        return LifecycleEvent(
            type=f"response.{name}",
            sequence_number=self._output.number(),
            response=snapshot or self.snapshot,
        )


_HANDLERS: dict[type, Callable[[ResponseStreamStateMachine, Any], list[Event]]] = {
    TextDelta: ResponseStreamStateMachine._text_delta,
    RefusalDelta: lambda machine, d: machine.refusal(d.text, d.block, d.part),
    ReasoningDelta: ResponseStreamStateMachine._reasoning_delta,
    SummaryDelta: lambda machine, d: machine.summary(d.text, d.part, d.block),
    OpaqueReasoning: lambda machine, d: machine.opaque(d.data, d.block, d.call),
    AnnotationDelta: lambda machine, d: machine.annotation(d.annotation, d.block, d.part),
    BlockStart: lambda machine, d: machine.start_block(d.block, d.kind, d.phase),
    BlockEnd: lambda machine, d: machine.end_block(d.block, d.kind),
    ToolCallDelta: ResponseStreamStateMachine.tool_call,
    ItemDelta: lambda machine, d: machine.item(d.key, d.item, done=d.done),
    EventDelta: lambda machine, d: machine.event(d.type, d.fields, d.key),
    UsageDelta: ResponseStreamStateMachine.usage,
    UpstreamInfo: ResponseStreamStateMachine.upstream_info,
    DiagnosticDelta: lambda machine, d: machine.diagnostic(d.code, d.message),
    FinishDelta: lambda machine, d: machine.defer_finish(d.reason),
    ErrorDelta: lambda machine, d: machine.fail(d.code, d.message, type=d.type, param=d.param),
}
"""The method for each type of delta."""
