"""Encodes the events of one response without encoding what its snapshots have in common again and again.

Every lifecycle event contains the whole response, and so the instructions and the tools of its request. Those
of a coding agent are tens of kilobytes, and a short turn has three such events: created, in progress and
completed.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.response import Response
from penstock.protocol.wire import encode

_REPEATED = ("instructions", "tools")
"""The fields of a response that are long and stay the same."""


class SnapshotEncoder:
    """`encode` returns the same bytes as `wire.encode`. Each response needs an encoder of its own."""

    __slots__ = ("_json", "_response", "_snapshot", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        """The last value of each repeated field. It is kept, so that no other value gets its identity."""
        self._json: dict[str, Raw] = {}
        """The same as JSON."""
        self._response: Response | None = None
        """The last snapshot, and its JSON: the first two events of a stream have the same."""
        self._snapshot = Raw()

    def encode(self, event: Event) -> bytes:
        """Return one line of JSON. The instructions and the tools must not be changed in place."""
        if not isinstance(event, LifecycleEvent):
            return encode(event)
        response = event.response
        if response is not self._response:
            self._response, self._snapshot = response, Raw(self._encode(response))
        return encode(replace(event, response=self._snapshot))

    def _encode(self, response: Response) -> bytes:
        for name in _REPEATED:
            value = getattr(response, name)
            if name not in self._values or self._values[name] is not value:
                self._values[name], self._json[name] = value, Raw(encode(value))
        return encode(replace(response, **self._json))
