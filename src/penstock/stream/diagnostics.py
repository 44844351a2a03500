"""Diagnostics: everything in a stream that was dropped, degraded or repaired."""

from __future__ import annotations

from collections.abc import Callable

from penstock.protocol.errors import Diagnostic
from penstock.tools.call_ids import is_hashed

Report = Callable[[str, str], None]
"""Records a diagnostic: its code and its message."""

MESSAGES: dict[str, str] = {
    # tool calls
    "undeclared_tool": "the model called {name!r}, which the request does not declare",
    "tool_not_allowed": "a call to {name!r} was dropped: the request does not allow it",
    "hosted_tool_called": "a call to {name!r} was dropped: the client cannot run this tool",
    "shared_call_id": "two parallel calls had the same id; one of them got a new id",
    "long_call_id": "a call id of {length} characters is too long; the call has the id {id!r} instead",
    "late_call_id": "the id of a call arrived after another id was announced; the announced id was kept",
    "name_changed": "the name of a call changed; the first name was used",
    "unmarked_call": "a new name arrived in a call, but no new id; it was treated as another call",
    "glued_calls": "the arguments of several calls arrived as one text; they were split",
    "repeated_arguments": "the arguments of a call arrived more than once; they were sent once",
    "arguments_disagree": "a call was repeated with different arguments; the first arguments were used",
    "trailing_arguments": "text after the complete arguments of a call was dropped",
    "odd_arguments": "call to {name!r}: {flaw}",
    "unannounced_call": "the stream ended before a call could be announced; the call was dropped",
    # items and events of the vendor
    "repeated_item": "an item of type {type!r} arrived more than once; it was sent once",
    "event_without_item": "an event of type {type!r} was dropped: it has no open item",
    # the rest
    "unknown_phase": "the message phase {phase!r} is not in the specification; it was dropped",
    "annotation_without_text": "citations were dropped: their text had already ended or never arrived",
    "usage_inconsistent": "the upstream's usage does not add up; cached and reasoning tokens were capped",
    "usage_estimated": "the upstream reported no usage; the token counts are estimates",
}
"""The message of every diagnostic that the machine can report, by code."""

_LIMIT = 64
"""Maximum number of different diagnostics of one response: a hostile upstream cannot make it grow forever."""

_PER_CODE = 8
"""Maximum number of different messages per code. The others are counted together."""

OTHERS = "this happened again with different values"
"""Replaces the messages of a code that are only counted."""

_LONGEST = 500
"""Maximum length of a message: it may quote a name or an id of any length."""


class Diagnostics:
    """The diagnostics of one response. Repeated diagnostics are counted."""

    __slots__ = ("_counts", "_messages")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._messages: dict[str, int] = {}
        """The number of different messages per code."""

    def add(self, code: str, **details: str) -> None:
        """Record a diagnostic of the machine, with the values for its message."""
        self.report(code, MESSAGES[code].format(**details))

    def add_long_call_id(self, call_id: str, given: str) -> None:
        """Record a call whose given id had to be replaced by its hash, if it had to be (decision 7)."""
        if is_hashed(call_id, given):
            self.add("long_call_id", length=str(len(given)), id=call_id)

    def report(self, code: str, message: str) -> None:
        """Record a diagnostic with a message of the caller's own."""
        code, message = code[:_LONGEST], message[:_LONGEST]
        if (code, message) not in self._counts:
            if self._messages.get(code, 0) >= _PER_CODE:
                message = OTHERS
            if (code, message) not in self._counts:
                if len(self._counts) >= _LIMIT:
                    return
                self._messages[code] = self._messages.get(code, 0) + 1
        self._counts[code, message] = self._counts.get((code, message), 0) + 1

    @property
    def entries(self) -> list[Diagnostic]:
        return [
            Diagnostic(code=code, message=message, count=count)
            for (code, message), count in self._counts.items()
        ]
