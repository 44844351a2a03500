"""Replay a recorded turn: feed the upstream's bytes, read by read, to the current code.

The gateway's own `Turn` runs. Only its surroundings are simulated: the upstreams answer and fail as they did,
and a turn that was stopped from outside is stopped again where the recording ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.dialects.toolset import identities_of
from penstock.errors import OpenResponsesError, PenstockError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.compactions import Summary
from penstock.gateway.settings import DEMO
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.compaction import CompactionCodec
from penstock.gateway.turn.requests import own_diagnostics
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.turn import Turn, TurnContext, TurnRequest
from penstock.gateway.turn.verdict import Verdict
from penstock.net.source import PulledSource, UpstreamSource
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.items import Item
from penstock.protocol.request import WebSocketCreate
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
"""Diagnostics from before the turn was planned. The recorded plan already has the results."""
_FELL_BACK = "fell_back"
_UNSEALED = CompactionCodec(str, lambda item: Summary(item.encrypted_content))
"""Summaries stay unsealed: sealed content cannot be compared anyway."""


class Rendered(Struct, frozen=True):
    """The request body of one attempt, as recorded and as rendered now."""

    attempt: RecordedAttempt
    now: dict[str, Any]


class Replayed(Struct, kw_only=True):
    """The result of a replay."""

    events: list[Event] = []
    rendered: list[Rendered] = []
    refused: RequestRefused | None = None
    """Set if the current code refuses the turn instead of starting it."""


class ReplayAbandoned(PenstockError):  # noqa: N818 - named after what happened
    """Nobody waits for the result of a replay any more."""


def replay(recording: Recording, is_wanted: Callable[[], bool] = lambda: True) -> Replayed:
    """Run the turn again. Nothing is sent or stored, and there are no delays. If the result is not wanted any
    more, nothing else is read: raise `ReplayAbandoned`."""
    replayed = asyncio.run(_replay(recording, is_wanted))
    if not is_wanted():
        raise ReplayAbandoned
    return replayed


async def _replay(recording: Recording, is_wanted: Callable[[], bool]) -> Replayed:
    stage = _Stage(recording, is_wanted)
    request, verdict = recording.attempts[0].plan.request, _verdict(recording)
    upstreams = [_upstream(each, stage) for each in recording.attempts]
    turn_request = _turn_request(recording, upstreams[0])
    response = response_for(request, id=recording.id, created_at=int(recording.began_at))
    machine = ResponseStreamStateMachine(
        response,
        clock=lambda: recording.events[-1].time,
        tools=turn_request.tools,
        used_call_ids=turn_request.used_call_ids,
        error_event=not isinstance(request, WebSocketCreate),  # decision 9
    )
    turn = Turn(
        _context(turn_request, compacts=recording.attempts[0].plan.compacts),
        turn_request,
        RecordedAttempts(recording, upstreams, stage),
        machine,
        verdict,
        Stopwatch(time.monotonic),
        Tracer(lambda _: None),
    )
    stage.begin(turn, verdict)
    if request.background:
        stage.write([*machine.start(queued=True), *machine.begin()])
    await turn.run(stage)
    return stage.replayed


class _Stage:
    """The simulated surroundings of the turn: where it writes events, its heartbeats and what stops it."""

    def __init__(self, recording: Recording, is_wanted: Callable[[], bool]) -> None:
        self.replayed = Replayed()
        self.is_wanted = is_wanted
        self._recording = recording
        self._turn: Turn
        self._verdict: Verdict
        self._is_closed = False

    def begin(self, turn: Turn, verdict: Verdict) -> None:
        self._turn, self._verdict = turn, verdict

    is_ready = True
    """Nothing has to be waited for."""

    def write(self, events: Sequence[Event], *, more: bool = False) -> bool:  # noqa: ARG002
        if events and not self._is_closed:
            self.replayed.events += events
            self._verdict.terminal_sent = events[-1].type in TERMINAL
        return True

    def keep(self, events: Sequence[Event]) -> None:
        self.write(events)

    async def flush(self) -> None:
        """Return at once: everything is written."""

    def refuse(self, refused: RequestRefused) -> None:
        self.replayed.refused = refused

    def send_failure(self, response: Response) -> None:
        number = len(self.replayed.events)
        self.write([LifecycleEvent(type="response.failed", sequence_number=number, response=response)])

    def catch_up(self, moment: float) -> None:
        """Start the stream if the recorded one had started by then, to keep a waiting client informed."""
        if not self.replayed.events and self._recording.began_at < moment:
            self.write(self._turn.start())

    async def stop(self) -> NoReturn:
        """Stop the turn here, where the recording ends."""
        self.stop_soon()
        while True:
            await asyncio.sleep(_FOREVER)

    def stop_soon(self) -> None:
        """Stop the turn at its next await. Events that a killed gateway did not send are not recorded."""
        self._is_closed = self._recording.is_cut
        if self._recording.stopped is not None:
            self._turn.stop(self._recording.stopped)

    def is_last(self, attempt: RecordedAttempt) -> bool:
        """Return whether the turn was stopped during this attempt."""
        return self._recording.stopped is not None and attempt is self._recording.attempts[-1]


class RecordedAttempts:
    """The recorded attempts, in order, without the delays between them."""

    def __init__(self, recording: Recording, upstreams: Sequence[Upstream], stage: _Stage) -> None:
        self._remaining = [
            Attempt(upstream, each.sent.model, "", 0.0, each.sent.attempt)
            for upstream, each in zip(upstreams, recording.attempts, strict=True)
        ]
        self._last = self._remaining[-1]
        self._recording, self._stage = recording, stage

    def first(self) -> Attempt:
        return self._remaining.pop(0)

    def after(self, error: OpenResponsesError) -> Attempt | None:  # noqa: ARG002 - the next attempt is recorded
        if self._remaining:
            return self._remaining.pop(0)
        if self._recording.stopped is None or self._recording.attempts[-1].failure is None:
            return None
        # The recorded turn failed here too, and was stopped while it waited to retry.
        self._stage.stop_soon()
        return Attempt(self._last.upstream, self._last.model, "", _FOREVER, 0)

    def answered(self, error: OpenResponsesError | None = None) -> None:
        """Do nothing: the next attempt does not depend on it."""

    def close(self) -> None:
        """Do nothing, like `answered`."""

    def is_ejected(self, candidate: Candidate) -> bool:  # noqa: ARG002 - only a gateway ejects targets
        return False


class RecordedUpstream:
    """An upstream that answers one attempt as recorded."""

    pass_key = False

    def __init__(self, recorded: RecordedAttempt, stage: _Stage) -> None:
        self.name = recorded.sent.target
        self.dialect = _dialect(recorded.plan.target.dialect)
        self.keys = KeyRing((), clock=time.monotonic)
        self._recorded, self._stage = recorded, stage

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - the target is recorded
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
        self._stage.catch_up(self._recorded.answered_at)
        return source

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


class RecordedSource(PulledSource):
    """The recorded reads, split as received. The relay processes each before the next is read."""

    def __init__(self, recorded: RecordedAttempt, stage: _Stage) -> None:
        super().__init__()
        self._recorded, self._stage = recorded, stage
        self._reads = iter(recorded.reads)
        answer = recorded.answer
        self.status = answer.status if answer else 0
        self.content_type = answer.content_type if answer else ""
        self.request_id = answer.request_id if answer else None

    async def read(self) -> bytes:
        trace = next(self._reads, None) if self._stage.is_wanted() else None
        if trace is None:
            return await self.end()
        self._stage.catch_up(trace.time)
        return trace.data

    async def end(self) -> bytes:
        """Do what followed the last read: fail, end the body, or stop the turn."""
        failure, recorded = self._recorded.failure, self._recorded
        if failure is not None:
            self._stage.catch_up(recorded.failed_at)
            if failure.is_a_break or recorded.answer is None:
                raise failure.error()
        elif self._stage.is_last(recorded) and not recorded.is_ended:
            await self._stage.stop()
        return b""

    def mask(self, text: str) -> str:
        """Return the text unchanged: recordings contain no keys."""
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002
        return data

    def finish(self) -> None:
        """Do nothing: there is nothing left to read."""


def _upstream(recorded: RecordedAttempt, stage: _Stage) -> Upstream:
    upstream = RecordedUpstream(recorded, stage)
    return _UNSEALED.upstream(upstream) if recorded.plan.compacts else upstream


def _dialect(name: str) -> Dialect:
    if name == DEMO:
        from penstock.demo import DIALECT

        return DIALECT
    if name not in RENDERED:
        raise CannotReplay(f"this version does not support the dialect of the recording: {name}")
    return rendered_dialect(name)


def _turn_request(recording: Recording, upstream: Upstream) -> TurnRequest:
    attempt = recording.attempts[0]
    plan = attempt.plan
    return TurnRequest(
        request=plan.request,
        model=str(plan.request.model),
        tools=identities_of(plan.request),
        used_call_ids=plan.used_call_ids,
        accent=plan.accent,
        headers={},
        first=Candidate(upstream, attempt.sent.model),
        tenant="",
        diagnostics=[*own_diagnostics(plan.request), *_earlier_diagnostics(recording)],
    )


def _earlier_diagnostics(recording: Recording) -> list[Diagnostic]:
    """Return the recorded diagnostics of steps that are not replayed.

    A single attempt that is a fallback means that the keys of the first target were cooling down.
    """
    response = recording.last.get("response") or {}
    codes = _FROM_HISTORY if len(recording.attempts) > 1 else (*_FROM_HISTORY, _FELL_BACK)
    return [
        Diagnostic(code=each["code"], message=each["message"])
        for each in response.get("diagnostics") or ()
        if each["code"] in codes
    ]


def _context(turn_request: TurnRequest, *, compacts: bool) -> TurnContext:
    counter = TokenCounter()

    def estimate(output: Sequence[Item]) -> UsageDelta:
        request = turn_request.request
        written = _UNSEALED.written(output) if compacts else output
        return estimate_usage(request, turn_request.first.model, written, counter)

    return TurnContext(
        # The limits were applied when the answer was recorded.
        answer_bytes=sys.maxsize,
        output_items=sys.maxsize,
        estimate=estimate,
        count_attempt=lambda *_: None,
    )


def _verdict(recording: Recording) -> Verdict:
    request = recording.attempts[0].plan.request
    return Verdict(
        request_id=str(recording.verdict.get("request_id", "")),
        response_id=recording.id,
        stream=request.stream is True or isinstance(request, WebSocketCreate),
    )
