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
_FIRST = "response.created"
_NO_JSON = Raw()


class SnapshotEncoder:
    """`encode` returns the same bytes as `wire.encode`. Each response needs an encoder of its own."""

    __slots__ = ("_json", "_response", "_snapshot", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        """The last value of each repeated field. It is kept, so that no other value gets its identity."""
        self._json: dict[str, Raw] = {}
        """The same as JSON."""
        self._response: Response | None = None
        """The snapshot of the first event, and its JSON: the second one has the same."""
        self._snapshot = _NO_JSON

    def encode(self, event: Event) -> bytes:
        """Return one line of JSON. The instructions and the tools must not be changed in place."""
        if not isinstance(event, LifecycleEvent):
            return encode(event)
        response = event.response
        snapshot = self._snapshot if response is self._response else Raw(self._encode(response))
        is_first = event.type == _FIRST
        self._response, self._snapshot = (response, snapshot) if is_first else (None, _NO_JSON)
        return encode(replace(event, response=snapshot))

    def _encode(self, response: Response) -> bytes:
        encoded: dict[str, Raw] = {}
        for name in _REPEATED:
            value = getattr(response, name)
            if value:
                if self._values.get(name) is not value:
                    self._values[name], self._json[name] = value, Raw(encode(value))
                encoded[name] = self._json[name]
        return encode(replace(response, **encoded))
