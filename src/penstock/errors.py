"""Every exception that Penstock raises on purpose.

PenstockError
├── DecodeError        a value on the wire is not what the protocol says it is
├── FrameTooLarge      one server-sent event is larger than the decoder may hold
└── BridgeError        the stream state machine was asked for something unlawful
"""

from __future__ import annotations


class PenstockError(Exception):
    """The root: catch this to catch everything that Penstock raises on purpose."""


class DecodeError(PenstockError):
    """A value cannot be read as the protocol type it should be.

    `param` is the path of the value as the specification writes it (`input[2].call_id`), ready to be
    the `param` of an error body; it is empty when the whole value is at fault.
    """

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.message = message
        self.param = param

    def within(self, step: str) -> DecodeError:
        """The same error, told from one level further out: `step` is a field name or `[index]`."""
        joint = "." if self.param and not self.param.startswith("[") else ""
        return DecodeError(self.message, f"{step}{joint}{self.param}")


class FrameTooLarge(PenstockError):  # noqa: N818 - says what happened, as the tree above shows
    """One server-sent event grew past the limit. The decoder that raised it takes no more input."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a server-sent event is larger than the limit of {limit} bytes")
        self.limit = limit


class BridgeError(PenstockError):
    """The state machine refused a call, and is in the state it was in before the call.

    `code` is one of the four of `OUTPUT_BEFORE_START` and its neighbours below.
    """

    OUTPUT_BEFORE_START = "bridge.stream.output_before_start"
    DELTA_AFTER_TERMINAL = "bridge.stream.delta_after_terminal"
    INVALID_TRANSITION = "bridge.stream.invalid_transition"
    INCOMPLETE_TOOL_CALL = "bridge.stream.incomplete_tool_call"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
