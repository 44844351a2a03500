"""Penstock: any model's stream, to any client, as one lawful OpenResponses stream.

This is the public list. Names are imported when they are first used, so that `import penstock` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.errors import BridgeError, DecodeError, FrameTooLarge, PenstockError
    from penstock.protocol.errors import Diagnostic
    from penstock.protocol.events import Event, ResponseStreamEvent, decode_event
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.response import Response, response_for
    from penstock.protocol.wire import decode, encode
    from penstock.sse import Decoder, Frame, encode_frame
    from penstock.stream.accents import ACCENTS
    from penstock.stream.callblock import ToolCallBlock
    from penstock.stream.checker import StreamChecker
    from penstock.stream.checker.rules import RULES, Violation
    from penstock.stream.deltas import (
        AnnotationDelta,
        BlockEnd,
        BlockKind,
        BlockStart,
        Delta,
        DiagnosticDelta,
        ErrorDelta,
        EventDelta,
        FinishDelta,
        FinishReason,
        ItemDelta,
        OpaqueReasoning,
        ReasoningDelta,
        RefusalDelta,
        SummaryDelta,
        TextDelta,
        ToolCallDelta,
        UpstreamInfo,
        UsageDelta,
    )
    from penstock.stream.machine import ResponseStreamStateMachine
    from penstock.stream.phases import ResponseStreamPhase
    from penstock.tools.identity import ToolIdentity, ToolIdentityMap

__version__ = "0.1.0"

_HOMES = {
    "errors": "BridgeError DecodeError FrameTooLarge PenstockError",
    "protocol.errors": "Diagnostic",
    "protocol.events": "Event ResponseStreamEvent decode_event",
    "protocol.request": "CreateResponse",
    "protocol.response": "Response response_for",
    "protocol.wire": "decode encode",
    "sse": "Decoder Frame encode_frame",
    "stream.accents": "ACCENTS",
    "stream.checker": "StreamChecker",
    "stream.deltas": (
        "AnnotationDelta BlockEnd BlockKind BlockStart Delta DiagnosticDelta ErrorDelta EventDelta "
        "FinishDelta FinishReason ItemDelta OpaqueReasoning ReasoningDelta RefusalDelta SummaryDelta "
        "TextDelta ToolCallDelta UpstreamInfo UsageDelta"
    ),
    "stream.machine": "ResponseStreamStateMachine",
    "stream.phases": "ResponseStreamPhase",
    "stream.checker.rules": "RULES Violation",
    "stream.callblock": "ToolCallBlock",
    "tools.identity": "ToolIdentity ToolIdentityMap",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ACCENTS",
    "RULES",
    "AnnotationDelta",
    "BlockEnd",
    "BlockKind",
    "BlockStart",
    "BridgeError",
    "CreateResponse",
    "DecodeError",
    "Decoder",
    "Delta",
    "Diagnostic",
    "DiagnosticDelta",
    "ErrorDelta",
    "Event",
    "EventDelta",
    "FinishDelta",
    "FinishReason",
    "Frame",
    "FrameTooLarge",
    "ItemDelta",
    "OpaqueReasoning",
    "PenstockError",
    "ReasoningDelta",
    "RefusalDelta",
    "Response",
    "ResponseStreamEvent",
    "ResponseStreamPhase",
    "ResponseStreamStateMachine",
    "StreamChecker",
    "SummaryDelta",
    "TextDelta",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolIdentity",
    "ToolIdentityMap",
    "UpstreamInfo",
    "UsageDelta",
    "Violation",
    "decode",
    "decode_event",
    "encode",
    "encode_frame",
    "response_for",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = getattr(import_module(f"penstock.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
