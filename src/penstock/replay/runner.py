"""A recorded turn, run again: the upstream's bytes as they came, through the code as it is now.

It is the gateway's own `Turn` that runs. Only what stands around it is played: the upstreams answer and break
as they did, and whoever ended the turn from outside does it again where the recording ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.errors import OpenResponsesError
from penstock.gateway.api.compact import INSTRUCTION
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.compactions import Summary
from penstock.gateway.settings import DEMO
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.compaction import CompactionCodec
from penstock.gateway.turn.requests import identities, own_diagnostics
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.turn import Turn, TurnContext, TurnRequest
from penstock.gateway.turn.verdict import Verdict
from penstock.net.source import PulledSource, UpstreamSource
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.items import Item, Message
from penstock.protocol.request import CreateResponse, WebSocketCreate
from penstock.protocol.response import Response, response_for
from penstock.replay.recording import CannotReplay, RecordedAttempt, Recording
from penstock.stream.deltas import UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tokens.counter import TokenCounter
from penstock.tokens.request_estimates import estimate_usage
from penstock.upstream.attempts import Attempt, Candidate
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import Upstream

_FOREVER = 3600.0
_FROM_HISTORY = ("compaction_unreadable",)
"""Diagnostics of what happens before a turn is planned. The plan has what came of it."""
_FELL_BACK = "fell_back"
_UNSEALED = CompactionCodec(str, lambda item: Summary(item.encrypted_content))
"""What was sealed cannot be compared anyway."""


class Rendered(Struct, frozen=True):
    """The body of one attempt's request: as it was sent, and as it would be sent now."""

    attempt: RecordedAttempt
    now: dict[str, Any]


class Replayed(Struct, kw_only=True):
    """What the same bytes become today."""

    events: list[Event] = []
    rendered: list[Rendered] = []
    refused: RequestRefused | None = None
    """A turn that had begun, and would now be refused."""


def replay(recording: Recording) -> Replayed:
    """Run it. Nothing is sent, nothing is stored, and no time is waited for."""
    return asyncio.run(_replay(recording))


async def _replay(recording: Recording) -> Replayed:
    stage = _Stage(recording)
    request, verdict = recording.attempts[0].plan.request, _verdict(recording)
    upstreams = [_upstream(each, stage) for each in recording.attempts]
    asked = _asked(recording, upstreams[0])
    response = response_for(request, id=recording.id, created_at=int(recording.began_at))
    machine = ResponseStreamStateMachine(
        response,
        clock=lambda: recording.events[-1].time,
        tools=asked.tools,
        used_call_ids=asked.used_call_ids,
        error_event=not isinstance(request, WebSocketCreate),  # decision 9
    )
    turn = Turn(
        _context(asked),
        asked,
        RecordedAttempts(recording, upstreams, stage),
        machine,
        verdict,
        Stopwatch(time.monotonic),
        Tracer(lambda _: None),
    )
    stage.begin(turn, verdict)
    if request.background:
        await stage.write([*machine.start(queued=True), *machine.begin()])
    await turn.run(stage)
    return stage.replayed


class _Stage:
    """What stands around the turn: its outlet, its heartbeats, and whoever stops it."""

    def __init__(self, recording: Recording) -> None:
        self.replayed = Replayed()
        self._recording = recording
        self._turn: Turn
        self._verdict: Verdict
        self._is_closed = False

    def begin(self, turn: Turn, verdict: Verdict) -> None:
        self._turn, self._verdict = turn, verdict

    async def write(self, events: Sequence[Event]) -> None:
        if events and not self._is_closed:
            self.replayed.events += events
            self._verdict.terminal_sent = events[-1].type in TERMINAL

    async def keep(self, events: Sequence[Event]) -> None:
        await self.write(events)

    async def refuse(self, refused: RequestRefused) -> None:
        self.replayed.refused = refused

    async def end_at_once(self, response: Response) -> None:
        number = len(self.replayed.events)
        await self.write([LifecycleEvent(type="response.failed", sequence_number=number, response=response)])

    async def catch_up(self, moment: float) -> None:
        """A stream that had begun by then, because the client had waited long enough, begins here too."""
        if not self.replayed.events and self._recording.began_at < moment:
            await self.write(self._turn.start())

    async def stop(self) -> NoReturn:
        """The turn was ended here."""
        self.stop_soon()
        while True:
            await asyncio.sleep(_FOREVER)

    def stop_soon(self) -> None:
        """At the next moment in which the turn waits. What a killed gateway would have said is not known."""
        self._is_closed = self._recording.is_cut
        if self._recording.stopped is not None:
            self._turn.stop(self._recording.stopped)

    def is_last(self, attempt: RecordedAttempt) -> bool:
        """Was the turn stopped during this attempt?"""
        return self._recording.stopped is not None and attempt is self._recording.attempts[-1]


class RecordedAttempts:
    """Those that were made, in their order, without the waits between them."""

    def __init__(self, recording: Recording, upstreams: Sequence[Upstream], stage: _Stage) -> None:
        self._left = [
            Attempt(upstream, each.sent.model, "", 0.0, each.sent.attempt)
            for upstream, each in zip(upstreams, recording.attempts, strict=True)
        ]
        self._last = self._left[-1]
        self._recording, self._stage = recording, stage

    def first(self) -> Attempt:
        return self._left.pop(0)

    def after(self, error: OpenResponsesError) -> Attempt | None:  # noqa: ARG002 - it is known what came next
        if self._left:
            return self._left.pop(0)
        if self._recording.stopped is None or self._recording.attempts[-1].failure is None:
            return None
        # It had failed then too, and was stopped while it waited to ask again.
        self._stage.stop_soon()
        return Attempt(self._last.upstream, self._last.model, "", _FOREVER, 0)


class RecordedUpstream:
    """Answers one attempt as it was answered."""

    pass_key = False

    def __init__(self, recorded: RecordedAttempt, stage: _Stage) -> None:
        self.name = recorded.sent.target
        self.dialect = _dialect(recorded.plan.target.dialect)
        self.keys = KeyRing((), clock=time.monotonic)
        self._recorded, self._stage = recorded, stage

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - what it was is recorded
        return self._recorded.plan.target

    async def send(
        self,
        request: UpstreamRequest,
        *,
        key: str,  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> UpstreamSource:
        self._stage.replayed.rendered.append(Rendered(self._recorded, request.body))
        source = RecordedSource(self._recorded, self._stage)
        if self._recorded.answer is None:
            await source.end()
        await self._stage.catch_up(self._recorded.answered_at)
        return source

    async def aclose(self) -> None:
        """Nothing is open."""


class RecordedSource(PulledSource):
    """The recorded reads, cut as they were. Each is given when the turn has dealt with the one before it."""

    def __init__(self, recorded: RecordedAttempt, stage: _Stage) -> None:
        super().__init__()
        self._recorded, self._stage = recorded, stage
        self._left = iter(recorded.reads)
        told = recorded.answer
        self.status = told.status if told else 0
        self.content_type = told.content_type if told else ""
        self.request_id = told.request_id if told else None

    async def read(self) -> bytes:
        self.pause()
        trace = next(self._left, None)
        if trace is None:
            return await self.end()
        await self._stage.catch_up(trace.time)
        return trace.data

    async def end(self) -> bytes:
        """What came behind the last read: a break, the end of the body, or the end of the turn."""
        failure, recorded = self._recorded.failure, self._recorded
        if failure is not None:
            await self._stage.catch_up(recorded.failed_at)
            if failure.is_a_break or recorded.answer is None:
                raise failure.error()
        elif self._stage.is_last(recorded) and not recorded.is_ended:
            await self._stage.stop()
        return b""

    def mask(self, text: str) -> str:
        """No key was recorded."""
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002
        return data

    async def finish(self) -> None:
        """There is nothing left."""


def _upstream(recorded: RecordedAttempt, stage: _Stage) -> Upstream:
    upstream = RecordedUpstream(recorded, stage)
    return _UNSEALED.upstream(upstream) if _is_compaction(recorded.plan.request) else upstream


def _dialect(name: str) -> Dialect:
    if name == DEMO:
        from penstock.demo import DIALECT

        return DIALECT
    if name not in RENDERED:
        raise CannotReplay(f"it was asked in a dialect that this version does not speak: {name}")
    return rendered_dialect(name)


def _asked(recording: Recording, upstream: Upstream) -> TurnRequest:
    attempt = recording.attempts[0]
    plan = attempt.plan
    return TurnRequest(
        request=plan.request,
        model=str(plan.request.model),
        tools=identities(plan.request),
        used_call_ids=plan.used_call_ids,
        accent=plan.accent,
        headers={},
        first=Candidate(upstream, attempt.sent.model),
        tenant="",
        diagnostics=[*own_diagnostics(plan.request), *_told_before(recording)],
    )


def _told_before(recording: Recording) -> list[Diagnostic]:
    """What was told of things that are not played again, as it was told then.

    A single attempt that stands in for another was made because that one's keys rested.
    """
    response = recording.last.get("response") or {}
    codes = _FROM_HISTORY if len(recording.attempts) > 1 else (*_FROM_HISTORY, _FELL_BACK)
    return [
        Diagnostic(code=told["code"], message=told["message"])
        for told in response.get("diagnostics") or ()
        if told["code"] in codes
    ]


def _context(asked: TurnRequest) -> TurnContext:
    counter = TokenCounter()

    def estimate(output: Sequence[Item]) -> UsageDelta:
        written = _UNSEALED.written(output) if _is_compaction(asked.request) else output
        return estimate_usage(asked.request, asked.first.model, written, counter)

    return TurnContext(
        answer_bytes=sys.maxsize,  # how much an answer might be was settled when it came
        estimate=estimate,
        count_attempt=lambda *_: None,
    )


def _is_compaction(request: CreateResponse) -> bool:
    """Was a summary asked for?"""
    last = request.input[-1] if isinstance(request.input, list) and request.input else None
    return isinstance(last, Message) and last.content == INSTRUCTION


def _verdict(recording: Recording) -> Verdict:
    request, told = recording.attempts[0].plan.request, recording.verdict
    return Verdict(
        request_id=str(told.get("request_id", "")),
        response_id=recording.id,
        stream=request.stream is True or isinstance(request, WebSocketCreate),
    )
