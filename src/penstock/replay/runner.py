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
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Limits, ModelRoute, Settings, Step
from penstock.gateway.telemetry.metrics import Metrics
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.requests import identities, own_diagnostics
from penstock.gateway.turn.run import Asked, Turn
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.summarising import SummarisingServices, SummarisingUpstream
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.items import Message
from penstock.protocol.request import CreateResponse, WebSocketCreate
from penstock.protocol.response import Response, response_for
from penstock.replay.recording import CannotReplay, RecordedAttempt, Recording
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tokens.counter import TokenCounter
from penstock.upstream.attempts import Attempt, Attempts, Choice
from penstock.upstream.keys import KeyRing
from penstock.upstream.upstream import Upstream, UpstreamAnswer

_FOREVER = 3600.0
_FROM_HISTORY = ("compaction_unreadable",)
"""Diagnostics of what happens before a turn is planned. The plan has what came of it."""
_FELL_BACK = "fell_back"


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
        error_event=not isinstance(request, WebSocketCreate),  # decisions 9
    )
    turn = Turn(
        _services(asked, upstreams[0]),
        asked,
        _Attempts(recording, upstreams, stage),
        machine,
        verdict,
        Stopwatch(time.monotonic),
        Tracer(lambda _: None),
    )
    stage.begin(turn, verdict)
    if request.background:
        await stage.write([*machine.start(queued=True), *machine.begin()])
    # A task of its own: a turn that is stopped cancels the one that it runs in.
    await asyncio.create_task(turn.run(stage))
    return stage.replayed


class _Stage:
    """What stands around the turn: its outlet, its heart, and whoever stops it."""

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
            await self.write(self._turn.begin_late())

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


class _Attempts(Attempts):
    """Those that were made, in their order, without the waits between them."""

    def __init__(self, recording: Recording, upstreams: Sequence[Upstream], stage: _Stage) -> None:
        choices = [
            Choice(upstream, each.sent.model)
            for upstream, each in zip(upstreams, recording.attempts, strict=True)
        ]
        super().__init__(choices, retries=0, wait_budget=0, clock=lambda: 0.0, random=lambda: 0.0)
        self._left = [
            Attempt(choice.upstream, choice.model, "", 0.0, each.sent.attempt)
            for choice, each in zip(choices, recording.attempts, strict=True)
        ]
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
        last = self._untried[-1]
        return Attempt(last.upstream, last.model, "", _FOREVER, 0)


class _Upstream:
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
    ) -> UpstreamAnswer:
        self._stage.replayed.rendered.append(Rendered(self._recorded, request.body))
        answer = _Answer(self._recorded, self._stage)
        if self._recorded.answer is None:
            await answer.end()
        await self._stage.catch_up(self._recorded.answered_at)
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""


class _Answer:
    """The recorded reads, cut as they were."""

    def __init__(self, recorded: RecordedAttempt, stage: _Stage) -> None:
        self._recorded, self._stage = recorded, stage
        self._left = iter(recorded.reads)
        told = recorded.answer
        self.status = told.status if told else 0
        self.content_type = told.content_type if told else ""
        self.request_id = told.request_id if told else None

    async def read(self) -> bytes:
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

    def close(self) -> None:
        """Nothing is open."""


def _upstream(recorded: RecordedAttempt, stage: _Stage) -> Upstream:
    upstream = _Upstream(recorded, stage)
    return SummarisingUpstream(upstream, str) if _is_compaction(recorded.plan.request) else upstream


def _dialect(name: str) -> Dialect:
    if name == DEMO:
        from penstock.demo.dialect import DIALECT

        return DIALECT
    if name not in RENDERED:
        raise CannotReplay(f"it was asked in a dialect that this version does not speak: {name}")
    return rendered_dialect(name)


def _asked(recording: Recording, upstream: Upstream) -> Asked:
    attempt = recording.attempts[0]
    plan = attempt.plan
    return Asked(
        request=plan.request,
        model=str(plan.request.model),
        tools=identities(plan.request),
        used_call_ids=plan.used_call_ids,
        accent=plan.accent,
        headers={},
        first=Choice(upstream, attempt.sent.model),
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


def _services(asked: Asked, upstream: Upstream) -> Services:
    route = ModelRoute(name=asked.model, steps=(Step(upstream.name, asked.first.model),))
    # How much an answer might be was settled when it came.
    settings = Settings(models={asked.model: route}, limits=Limits(answer_bytes=sys.maxsize))
    services = Services(settings, {upstream.name: upstream}, Metrics(), TokenCounter())
    if not _is_compaction(asked.request):
        return services
    return SummarisingServices(services, str, lambda item: Summary(item.encrypted_content))


def _is_compaction(request: CreateResponse) -> bool:
    """Was a summary asked for? Here it stays unsealed: what was sealed cannot be compared anyway."""
    last = request.input[-1] if isinstance(request.input, list) and request.input else None
    return isinstance(last, Message) and last.content == INSTRUCTION


def _verdict(recording: Recording) -> Verdict:
    request, told = recording.attempts[0].plan.request, recording.verdict
    return Verdict(
        request_id=str(told.get("request_id", "")),
        response_id=recording.id,
        stream=request.stream is True or isinstance(request, WebSocketCreate),
    )
