"""The expected outcome of a stream, and values that several tests use."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.errors import (
    OpenResponsesError,
    ProtocolError,
    ServerError,
)
from penstock.parts.parts import Part, ToolCallPart
from tests.parts.adapted import adapt, parts_per_event
from tests.parts.events import (
    JSON,
    failed,
)
from tests.parts.stream_changes import Events

Failure = tuple[type[OpenResponsesError], str]

ADD = ("gw-call_fc_1", "add", {"a": 2, "b": 3})
MULTIPLY = ("gw-call_fc_2", "multiply", {"c": 4})
TRUNCATED = (ProtocolError, "stream_truncated")
EMPTY = (ProtocolError, "empty_response")
MALFORMED = (ProtocolError, "malformed_tool_call")


class Expected(Struct, kw_only=True):
    """The expected outcome of a stream. `diagnostics` maps codes to counts."""

    text: str = ""
    calls: list[tuple[str, str, JSON]] = []
    error: Failure | None = None
    finish: str = "stop"
    diagnostics: dict[str, int] = {}

    def check(self, events: Events, broken: OpenResponsesError | None = None) -> None:
        found = adapt(events, broken=broken)
        calls = [(call.call_id, call.name, call.input) for call in found.calls]
        assert (found.text, calls) == (self.text, self.calls)
        assert found.error == self.error
        assert found.result.finish == self.finish
        assert found.diagnostics == self.diagnostics


FAILED = failed("server_error", "boom")
ERROR_EVENT = {"type": "error", "code": "server_error", "message": "mid error", "param": None}
SERVER_ERROR = (ServerError, "server_error")

Table = list[tuple[JSON, list[Part]]]
"""The events of a stream, each with the parts that it produces."""

ADD_PART = ToolCallPart("gw-call_fc_1", "add", {"a": 2})
MULTIPLY_PART = ToolCallPart("gw-call_fc_2", "multiply", {"b": 3})


def assert_produces(table: Table, **options: Any) -> None:
    assert parts_per_event([event for event, _ in table], **options) == [parts for _, parts in table]


RATE_LIMIT = failed("rate_limit_exceeded", "Slow")
