"""Upstreams whose text becomes one compaction item instead of output text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.dialects.plan import Dialect, Plan, Reader, Target, UpstreamRequest
from penstock.failures import Failure
from penstock.gateway.history.compactions import TRIGGER, Summary
from penstock.net.source import UpstreamSource
from penstock.protocol.items import Compaction, Item, Message
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    ItemDelta,
    TextDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import INCOMPLETE_REASONS
from penstock.upstream.target import Upstream

_PASSED = (UsageDelta, UpstreamInfo, DiagnosticDelta, ErrorDelta)
"""The deltas that are passed on from an answer that becomes a summary."""


class CompactionCodec(Struct, frozen=True):
    """Converts the text of a summary to a compaction item, and back."""

    seal: Callable[[str], str]
    open: Callable[[Compaction], Summary | None]

    def upstream(self, upstream: Upstream) -> Upstream:
        """Wrap an upstream so that its text becomes a compaction item."""
        return CompactingUpstream(upstream, self.seal)

    def written(self, output: Sequence[Item]) -> list[Item]:
        """Return the summaries as the model wrote them, before sealing: their tokens are counted."""
        return [
            Message(role="assistant", content=summary.summary)
            for item in output
            if isinstance(item, Compaction) and (summary := self.open(item)) is not None
        ]


class CompactingUpstream:
    """An upstream whose answers are read by `CompactingReader`."""

    def __init__(self, upstream: Upstream, seal: Callable[[str], str]) -> None:
        self.name, self.keys, self.pass_key = upstream.name, upstream.keys, upstream.pass_key
        self.dialect: Dialect = CompactingDialect(upstream.dialect, seal)
        self._upstream = upstream

    def target(self, model: str, key: str) -> Target:
        return self._upstream.target(model, key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        return await self._upstream.send(request, key=key, headers=headers)

    async def aclose(self) -> None:
        """Do nothing: the wrapped upstream belongs to the gateway."""


class CompactingDialect:
    def __init__(self, dialect: Dialect, seal: Callable[[str], str]) -> None:
        self.name = dialect.name
        self.connection = dialect.connection
        self._dialect, self._seal = dialect, seal

    def render(self, plan: Plan) -> UpstreamRequest:
        return self._dialect.render(plan)

    def reader(self, plan: Plan) -> Reader:
        return CompactingReader(self._dialect.reader(plan), self._seal)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return SummaryCollector(self._seal).take(self._dialect.read_body(plan, body))

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return self._dialect.classify(status, headers, body)


class CompactingReader:
    def __init__(self, reader: Reader, seal: Callable[[str], str]) -> None:
        self._reader, self._collector = reader, SummaryCollector(seal)

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def feed(self, frame: Frame) -> list[Delta]:
        return self._collector.take(self._reader.feed(frame))

    def end(self) -> list[Delta]:
        return self._collector.take(self._reader.end())


class SummaryCollector:
    """Collects the text of an answer, and replaces it with one item at the end."""

    def __init__(self, seal: Callable[[str], str]) -> None:
        self._seal = seal
        self._pieces: list[str] = []
        self._is_done = False

    def take(self, deltas: Iterable[Delta]) -> list[Delta]:
        result: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._pieces.append(delta.text)
            elif isinstance(delta, FinishDelta):
                result += [*self._finish(delta), delta]
            elif isinstance(delta, _PASSED):
                result.append(delta)
        return result

    def _finish(self, finish: FinishDelta) -> list[Delta]:
        """Return the compaction item, but none for a truncated summary: the missing part would be lost."""
        if self._is_done or finish.reason in INCOMPLETE_REASONS:
            return []
        self._is_done = True
        summary = "".join(self._pieces).strip()
        if not summary:
            return [ErrorDelta("upstream_empty", "the model returned no summary")]
        return [ItemDelta(TRIGGER, Compaction(encrypted_content=self._seal(summary)), done=True)]
