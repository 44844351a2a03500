"""The way of one answer through the gateway: from the upstream's bytes to the turn's outlet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Dialect, Plan
from penstock.errors import NetworkError, ProtocolError
from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, shown
from penstock.net.source import Inbox, UpstreamSource
from penstock.protocol.events import Event
from penstock.upstream.masking import masked


class Relay:
    """What one read brings leaves in one write, unless it is so much that others would have to wait."""

    def __init__(
        self,
        pipeline: Pipeline,
        outlet: Outlet,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
        most_bytes: int,
    ) -> None:
        self._pipeline, self._outlet, self._verdict = pipeline, outlet, verdict
        self._watch, self._tracer, self._most_bytes = watch, tracer, most_bytes
        self._unwritten: list[Event] = []
        """Events of the current read. They leave before anything else can number an event."""
        self._work = WorkSlice()

    async def carry(self, source: UpstreamSource, dialect: Dialect, plan: Plan) -> None:
        """Read an answer to its end, without its terminal event. Raises what `Pipeline.read` raises, and the
        break of a connection unless the model had finished."""
        pipeline = self._pipeline
        pipeline.open(dialect, plan, content_type=source.content_type, mask=partial(masked, source=source))
        inbox = Inbox(source)
        try:
            while not pipeline.is_answered and (data := await self._next(inbox)):
                for events in pipeline.read(data):
                    self._add(events)
                    if self._work.is_over:
                        await self.write()
                        await self._work.pause()
            self._add(pipeline.read_end())
        except NetworkError:
            self._add(pipeline.read_cut())
            if not pipeline.has_finished:
                raise
        finally:
            if pipeline.upstream_id:
                self._verdict.upstream_id = shown(pipeline.upstream_id)

    async def write(self, events: Sequence[Event] = ()) -> None:
        """Send events, behind those that still wait."""
        waiting, self._unwritten = self._unwritten, []
        await self._outlet.write([*waiting, *events])

    async def keep(self, events: Sequence[Event]) -> None:
        """The same for a client that is gone: they are only kept."""
        waiting, self._unwritten = self._unwritten, []
        await self._outlet.keep([*waiting, *events])

    async def refuse(self, refused: RequestRefused) -> None:
        """Answer with an HTTP error instead; only before anything was written."""
        await self._outlet.refuse(refused)

    def _add(self, events: list[Event]) -> None:
        self._unwritten += events
        if self._pipeline.has_output and self._verdict.first_output_ms < 0:
            self._verdict.first_output_ms = round(self._watch.seconds * 1000)

    async def _next(self, inbox: Inbox) -> bytes:
        """The next bytes. Of an answer that is too large, all that may be taken is taken."""
        await self.write()
        room = self._most_bytes - self._verdict.bytes_in
        data = b""
        if room >= 0:
            with self._watch.waiting():
                data = await inbox.take()
            self._work.restart()  # something came: the loop has served others since the last time
        self._watch.hear()
        self._tracer.read(data)
        self._verdict.bytes_in += len(data)
        if room < 0 or (room == 0 and data):
            message = f"the upstream sent more than {self._most_bytes} bytes (answer_bytes in penstock.toml)"
            raise ProtocolError(message, code="upstream_invalid")
        return data[:room]
