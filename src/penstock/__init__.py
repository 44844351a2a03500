"""Penstock: any model's stream, to any client, as one lawful OpenResponses stream.

This is the public list. Names are imported when they are first used, so that `import penstock` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.client import OpenResponsesClient
    from penstock.client.config import ClientConfig
    from penstock.client.sync import SyncOpenResponsesClient
    from penstock.errors import (
        AuthenticationError,
        BridgeError,
        ContextOverflowError,
        DecodeError,
        FrameTooLarge,
        InvalidRequestError,
        NetworkError,
        NotFoundError,
        OpenResponsesError,
        OverloadedError,
        PenstockError,
        PermissionDeniedError,
        ProtocolError,
        RateLimitError,
        ServerError,
    )
    from penstock.parts.adapter import OpenResponsesStreamAdapter
    from penstock.parts.markers import marker_part
    from penstock.parts.messages import TranslatedMessages, translate_messages
    from penstock.parts.parts import (
        Audience,
        ChatMessage,
        ChatTool,
        DataPart,
        MessagePart,
        Part,
        Role,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolResultPart,
    )
    from penstock.parts.result import StreamResult
    from penstock.parts.toolset import translate_tool_mode, translate_tools
    from penstock.protocol.errors import Diagnostic
    from penstock.protocol.events import Event, ResponseStreamEvent, decode_event
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.response import Response, response_for
    from penstock.protocol.tools import FunctionTool
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
    "client.client": "OpenResponsesClient",
    "client.config": "ClientConfig",
    "client.sync": "SyncOpenResponsesClient",
    "errors": (
        "AuthenticationError BridgeError ContextOverflowError DecodeError FrameTooLarge InvalidRequestError "
        "NetworkError NotFoundError OpenResponsesError OverloadedError PenstockError PermissionDeniedError "
        "ProtocolError RateLimitError ServerError"
    ),
    "parts.adapter": "OpenResponsesStreamAdapter",
    "parts.markers": "marker_part",
    "parts.messages": "TranslatedMessages translate_messages",
    "parts.parts": (
        "Audience ChatMessage ChatTool DataPart MessagePart Part Role TextPart ThinkingPart ToolCallPart "
        "ToolResultPart"
    ),
    "parts.result": "StreamResult",
    "parts.toolset": "translate_tool_mode translate_tools",
    "protocol.errors": "Diagnostic",
    "protocol.events": "Event ResponseStreamEvent decode_event",
    "protocol.request": "CreateResponse",
    "protocol.response": "Response response_for",
    "protocol.tools": "FunctionTool",
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
    "Audience",
    "AuthenticationError",
    "BlockEnd",
    "BlockKind",
    "BlockStart",
    "BridgeError",
    "ChatMessage",
    "ChatTool",
    "ClientConfig",
    "ContextOverflowError",
    "CreateResponse",
    "DataPart",
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
    "FunctionTool",
    "InvalidRequestError",
    "ItemDelta",
    "MessagePart",
    "NetworkError",
    "NotFoundError",
    "OpaqueReasoning",
    "OpenResponsesClient",
    "OpenResponsesError",
    "OpenResponsesStreamAdapter",
    "OverloadedError",
    "Part",
    "PenstockError",
    "PermissionDeniedError",
    "ProtocolError",
    "RateLimitError",
    "ReasoningDelta",
    "RefusalDelta",
    "Response",
    "ResponseStreamEvent",
    "ResponseStreamPhase",
    "ResponseStreamStateMachine",
    "Role",
    "ServerError",
    "StreamChecker",
    "StreamResult",
    "SummaryDelta",
    "SyncOpenResponsesClient",
    "TextDelta",
    "TextPart",
    "ThinkingPart",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCallPart",
    "ToolIdentity",
    "ToolIdentityMap",
    "ToolResultPart",
    "TranslatedMessages",
    "UpstreamInfo",
    "UsageDelta",
    "Violation",
    "decode",
    "decode_event",
    "encode",
    "encode_frame",
    "marker_part",
    "response_for",
    "translate_messages",
    "translate_tool_mode",
    "translate_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = getattr(import_module(f"penstock.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
