"""What a stream has to confess: everything that was dropped, degraded or repaired on the way."""

from __future__ import annotations

from collections.abc import Callable

from penstock.protocol.errors import Diagnostic

Tell = Callable[[str, str], None]
"""Takes the code and the words of a diagnostic."""

MESSAGES: dict[str, str] = {
    # tool calls
    "undeclared_tool": "the model called {name!r}, which the request does not declare",
    "tool_not_allowed": "a call to {name!r} was kept back: the request does not allow it",
    "shared_call_id": "two parallel calls came with one id; one of them got another",
    "late_call_id": "an id came after its call was announced under another",
    "name_changed": "a call came under a second name; the first one stands",
    "unmarked_call": "a call began with nothing but another name than the one before",
    "glued_calls": "the arguments of several calls came as one; they were taken apart",
    "repeated_arguments": "a call's arguments came more than once; they were taken once",
    "arguments_disagree": "a call was repeated with other arguments; the first stand",
    "trailing_arguments": "text behind a call's whole arguments was left out",
    "odd_arguments": "in a call to {name!r} {flaw}",
    "unannounced_call": "the stream ended before a call had its name; the call was left out",
    # items and events of the vendor
    "repeated_item": "an item of type {type!r} came more than once; it was sent once",
    "event_without_item": "an event of type {type!r} was left out: it has no open item",
    # the rest
    "unknown_phase": "the phase {phase!r} of a message is not one of the specification's; it was left out",
    "annotation_without_text": "citations were left out: no text came for them",
    "usage_inconsistent": "the upstream's usage does not add up; parts were bounded by their whole",
    "usage_estimated": "the upstream gave no usage; the figures are estimates",
}
"""Every diagnostic that the machine can make, by its code."""

_LIMIT = 64
"""Different diagnostics that one response keeps: a hostile upstream cannot make it grow without bound."""

_PER_CODE = 8
"""Different messages of one code. The others are counted together."""

OTHERS = "the same happened to others"
"""Stands for the messages of a code that are only counted."""

_LONGEST = 500
"""Characters of a message: it may quote a name or an id of any length."""


class Diagnostics:
    """The diagnostics of one response. One that repeats is counted."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._messages: dict[str, int] = {}
        """How many different messages there are of each code."""

    def add(self, code: str, **details: str) -> None:
        self.tell(code, MESSAGES[code].format(**details))

    def tell(self, code: str, message: str) -> None:
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
    def told(self) -> list[Diagnostic]:
        return [
            Diagnostic(code=code, message=message, count=count)
            for (code, message), count in self._counts.items()
        ]
