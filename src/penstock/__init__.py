"""Penstock: any model's stream, to any client, as one lawful OpenResponses stream.

`__all__` lists the public names; `docs/library.md` describes them. Each is imported when it is first used, so
`import penstock` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.client.client import OpenResponsesClient
    from penstock.client.config import ClientConfig
    from penstock.client.sync import SyncOpenResponsesClient
    from penstock.dialects.pipeline import Pipeline
    from penstock.dialects.plan import Dialect, Plan, Quirks, ReadDialect, Reader, Target, UpstreamRequest
    from penstock.dialects.presets import target_for
    from penstock.dialects.registry import DIALECTS, dialect
    from penstock.dialects.toolset import plan_for
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
        StoreError,
    )
    from penstock.models.directory import ModelDirectory
    from penstock.models.identity import ModelIdentity, parse_model_id
    from penstock.models.info import ModelInfo, Prices
    from penstock.models.learned_limits import LearnedLimits, limits_path
    from penstock.models.overrides import parse_override
    from penstock.parts.adapter import OpenResponsesStreamAdapter
    from penstock.parts.markers import history_of, marker_part
    from penstock.parts.messages import (
        TranslatedMessages,
        instructions_of,
        translate_messages,
        translate_tool_mode,
        translate_tools,
    )
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
    from penstock.protocol.errors import Diagnostic
    from penstock.protocol.events import Event, ResponseStreamEvent, decode_event
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.response import Response, response_for
    from penstock.protocol.tools import FunctionTool
    from penstock.protocol.wire import decode, encode
    from penstock.provider.editor_turn import Host, HostSettings
    from penstock.provider.loop import Answer, Listener, Tool, converse
    from penstock.provider.options import ResponseOptions
    from penstock.provider.provider import LanguageModelProvider
    from penstock.provider.tracker import UsageTracker
    from penstock.sse import Decoder, Frame, encode_frame
    from penstock.store import open_store
    from penstock.store.contract import Store
    from penstock.store.keeper import StoreKeeper
    from penstock.store.memory import MemoryStore
    from penstock.store.records import Opened
    from penstock.stream.accents import ACCENTS
    from penstock.stream.calls.call_block import ToolCallBlock
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
    from penstock.tokens.counter import Estimate, TokenCounter
    from penstock.tools.family import ToolIdentity
    from penstock.tools.identity import ToolIdentityMap

__version__ = VERSION

_HOMES = {
    "client.client": "OpenResponsesClient",
    "client.config": "ClientConfig",
    "client.sync": "SyncOpenResponsesClient",
    "dialects.pipeline": "Pipeline",
    "dialects.plan": "Dialect Plan Quirks ReadDialect Reader Target UpstreamRequest",
    "dialects.presets": "target_for",
    "dialects.registry": "DIALECTS dialect",
    "dialects.toolset": "plan_for",
    "errors": (
        "AuthenticationError BridgeError ContextOverflowError DecodeError FrameTooLarge InvalidRequestError "
        "NetworkError NotFoundError OpenResponsesError OverloadedError PenstockError PermissionDeniedError "
        "ProtocolError RateLimitError ServerError StoreError"
    ),
    "models.directory": "ModelDirectory",
    "models.identity": "ModelIdentity parse_model_id",
    "models.info": "ModelInfo Prices",
    "models.learned_limits": "LearnedLimits limits_path",
    "models.overrides": "parse_override",
    "parts.adapter": "OpenResponsesStreamAdapter",
    "parts.markers": "history_of marker_part",
    "parts.messages": (
        "TranslatedMessages instructions_of translate_messages translate_tool_mode translate_tools"
    ),
    "parts.parts": (
        "Audience ChatMessage ChatTool DataPart MessagePart Part Role TextPart ThinkingPart ToolCallPart "
        "ToolResultPart"
    ),
    "parts.result": "StreamResult",
    "protocol.errors": "Diagnostic",
    "protocol.events": "Event ResponseStreamEvent decode_event",
    "protocol.request": "CreateResponse",
    "protocol.response": "Response response_for",
    "protocol.tools": "FunctionTool",
    "protocol.wire": "decode encode",
    "provider.loop": "Answer Listener Tool converse",
    "provider.options": "ResponseOptions",
    "provider.provider": "LanguageModelProvider",
    "provider.tracker": "UsageTracker",
    "provider.editor_turn": "Host HostSettings",
    "sse": "Decoder Frame encode_frame",
    "store.keeper": "StoreKeeper",
    "store.memory": "MemoryStore",
    "store": "open_store",
    "store.contract": "Store",
    "store.records": "Opened",
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
    "stream.calls.call_block": "ToolCallBlock",
    "tokens.counter": "Estimate TokenCounter",
    "tools.family": "ToolIdentity",
    "tools.identity": "ToolIdentityMap",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ACCENTS",
    "DIALECTS",
    "RULES",
    "AnnotationDelta",
    "Answer",
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
    "Dialect",
    "ErrorDelta",
    "Estimate",
    "Event",
    "EventDelta",
    "FinishDelta",
    "FinishReason",
    "Frame",
    "FrameTooLarge",
    "FunctionTool",
    "Host",
    "HostSettings",
    "InvalidRequestError",
    "ItemDelta",
    "LanguageModelProvider",
    "LearnedLimits",
    "Listener",
    "MemoryStore",
    "MessagePart",
    "ModelDirectory",
    "ModelIdentity",
    "ModelInfo",
    "NetworkError",
    "NotFoundError",
    "OpaqueReasoning",
    "OpenResponsesClient",
    "OpenResponsesError",
    "OpenResponsesStreamAdapter",
    "Opened",
    "OverloadedError",
    "Part",
    "PenstockError",
    "PermissionDeniedError",
    "Pipeline",
    "Plan",
    "Prices",
    "ProtocolError",
    "Quirks",
    "RateLimitError",
    "ReadDialect",
    "Reader",
    "ReasoningDelta",
    "RefusalDelta",
    "Response",
    "ResponseOptions",
    "ResponseStreamEvent",
    "ResponseStreamPhase",
    "ResponseStreamStateMachine",
    "Role",
    "ServerError",
    "Store",
    "StoreError",
    "StoreKeeper",
    "StreamChecker",
    "StreamResult",
    "SummaryDelta",
    "SyncOpenResponsesClient",
    "Target",
    "TextDelta",
    "TextPart",
    "ThinkingPart",
    "TokenCounter",
    "Tool",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCallPart",
    "ToolIdentity",
    "ToolIdentityMap",
    "ToolResultPart",
    "TranslatedMessages",
    "UpstreamInfo",
    "UpstreamRequest",
    "UsageDelta",
    "UsageTracker",
    "Violation",
    "converse",
    "decode",
    "decode_event",
    "dialect",
    "encode",
    "encode_frame",
    "history_of",
    "instructions_of",
    "limits_path",
    "marker_part",
    "open_store",
    "parse_model_id",
    "parse_override",
    "plan_for",
    "response_for",
    "target_for",
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
