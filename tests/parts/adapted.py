"""Run complete streams through the adapter, and check what holds for every stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from penstock.errors import OpenResponsesError
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.parts.result import StreamResult
from penstock.protocol.events import Event, read_event


class Adapted(Struct):
    parts: list[Part]
    result: StreamResult

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        return "".join(str(part.value) for part in self.parts if isinstance(part, ThinkingPart))

    @property
    def calls(self) -> list[ToolCallPart]:
        return [part for part in self.parts if isinstance(part, ToolCallPart)]

    @property
    def data(self) -> list[DataPart]:
        return [part for part in self.parts if isinstance(part, DataPart)]

    @property
    def summary(self) -> list[Any]:
        """The parts in order: texts as strings, calls as (id, name, input)."""
        short: list[Any] = []
        for part in self.parts:
            if isinstance(part, ToolCallPart):
                short.append((part.call_id, part.name, part.input))
            else:
                short.append(part.data if isinstance(part, DataPart) else part.value)
        return short

    @property
    def error(self) -> tuple[type[OpenResponsesError], str] | None:
        """The class and the code of the error, if there is one."""
        error = self.result.error
        return None if error is None else (error.__class__, error.code)

    @property
    def diagnostics(self) -> dict[str, int]:
        """The number of diagnostics with each code."""
        counts: Counter[str] = Counter()
        for diagnostic in self.result.diagnostics:
            counts[diagnostic.code] += diagnostic.count
        return dict(counts)


def adapt(
    events: Iterable[dict[str, Any] | Event], *, broken: OpenResponsesError | None = None, **options: Any
) -> Adapted:
    """Adapt a complete stream; `broken` is the error that cut it off. Check what holds for every stream."""
    adapter = OpenResponsesStreamAdapter(**options)
    parts: list[Part] = []
    for event in events:
        parts += adapter.feed(_event(event))
    parts += adapter.end(broken)
    found = Adapted(parts, adapter.result)
    ids = [call.call_id for call in found.calls]
    assert len(ids) == len(set(ids)), "a call id was delivered twice"
    assert all(isinstance(call.input, dict) and call.name for call in found.calls)
    assert found.text.strip() or found.calls or found.data or found.result.error, "the stream ended silently"
    assert adapter.end() == []
    return found


def parts_per_event(events: Iterable[dict[str, Any] | Event], **options: Any) -> list[list[Part]]:
    """Return the parts of each event."""
    adapter = OpenResponsesStreamAdapter(**options)
    return [adapter.feed(_event(event)) for event in events]


def _event(event: dict[str, Any] | Event) -> Event:
    return event if isinstance(event, Event) else read_event(event)
