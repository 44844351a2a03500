"""Reads the stream parts of an AI SDK language model: one part per frame.

A tool call is sent twice: while its input streams (`tool-input-start`, `-delta`, `-end`) and again in full
(`tool-call`). Both have the same id and become one call, so no order, repeat or gap can duplicate it
(ask B4). Its end is `tool-call` and not `tool-input-end`, which is also sent when a call is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.dialects.ai_sdk.finishes import (
    ERROR,
    FINISHES,
    INTERRUPTED,
    RAW_FINISHES,
    read_finish,
    read_usage,
)
from penstock.dialects.ai_sdk.hosted import HostedTools
from penstock.dialects.envelope import seal
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import UrlCitation
from penstock.protocol.items import Compaction
from penstock.sse import Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)

JSON = dict[str, Any]

OPAQUE = frozenset(("signature", "redactedData", "thoughtSignature", "reasoningEncryptedContent"))
"""The fields of a provider's metadata that only the provider can read."""

_CUT_OFF = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
_PHASES = ("commentary", "final_answer")


class AiSdkReader:
    """Reads one answer."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._tools = plan.tools
        self._hosted = HostedTools()
        self._started: set[str] = set()
        self._unnamed: dict[str, list[str]] = {}
        """Input received before it is known whether the provider or the client runs the call."""
        self._sealed: set[str] = set()
        self._compactions: dict[str, list[str]] = {}
        self._text: str | None = None
        """The open text block, or the last one."""
        self._citations: list[UrlCitation] = []
        self._cited: set[str] = set()
        self._ending: BlockEnd | None = None
        """The end of the last block, held back: if the answer was cut there, the block is incomplete."""
        self._error: ErrorDelta | None = None
        self._unknown: set[str] = set()
        self._has_parts = False
        self._has_done_marker = False
        self._over = False

    @property
    def is_over(self) -> bool:
        return self._over

    def feed(self, frame: Frame) -> list[Delta]:
        if self._over or not frame.data.strip():
            return []
        if frame.data.strip() == DONE:
            self._has_done_marker = True
            return []
        part = read_object(frame)
        if isinstance(part, ErrorDelta):
            self._over = True
            return [part]
        return self.read_part(part)

    def read_part(self, part: JSON) -> list[Delta]:
        type = text_of(part.get("type"))
        self._has_parts = self._has_parts or type != "ping"
        handler = HANDLERS.get(type)
        if handler is None:
            return self._left_out(type)
        deltas = handler(self, part)
        if deltas and self._ending is not None and type in CONTENT:
            held, self._ending = self._ending, None
            return [held, *deltas]
        return deltas

    def end(self) -> list[Delta]:
        if self._over:
            return []
        self._over = True
        if self._error is not None:
            return [*self._release(), self._error]
        if self._has_done_marker and self._has_parts:
            return [*self._release(), FinishDelta(FinishReason.STOP)]
        if self._has_parts:
            return [
                *self._release(),
                ErrorDelta("upstream_truncated", "the upstream ended without a `finish` part"),
            ]
        return [ErrorDelta("upstream_empty", "the upstream ended without sending anything")]

    # The answer

    def _stream_start(self, part: JSON) -> list[Delta]:
        return [
            DiagnosticDelta("upstream_warning", msgspec.json.encode(warning).decode()[:500])
            for warning in objects_of(part.get("warnings"))
        ]

    def _metadata(self, part: JSON) -> list[Delta]:
        model = text_of(part.get("modelId"))
        return [UpstreamInfo(id=text_of(part.get("id")) or None, model=model or None)]

    def _finish(self, part: JSON) -> list[Delta]:
        usage = read_usage(object_of(part.get("usage")), object_of(part.get("providerMetadata")))
        unified, raw = read_finish(part.get("finishReason"))
        reason = RAW_FINISHES.get(raw) or FINISHES.get(unified)
        deltas: list[Delta] = [usage]
        self._over = True
        if self._error is None and unified == ERROR:
            self._error = ErrorDelta(
                "server_error", f"the upstream reported the finish reason `error` {raw[:80]}".strip()
            )
        if self._error is None and unified == INTERRUPTED:
            self._error = ErrorDelta(
                "upstream_truncated", "the upstream reported that its answer was interrupted"
            )
        if self._error is not None:
            return [*self._release(), *deltas, self._error]
        if reason is None:
            reason = FinishReason.STOP
            message = f"the finish reason {unified[:80]!r} is unknown; it was read as a normal stop"
            deltas.append(DiagnosticDelta("unknown_finish", message))
        if reason in _CUT_OFF:
            self._ending = None
        return [*self._release(), *deltas, FinishDelta(reason)]

    def _fail(self, part: JSON) -> list[Delta]:
        """Read an error. More may follow, at least usage, so the failure is reported at the end."""
        error = error_delta({"error": part.get("error")})
        if self._error is None:
            self._error = error
            return []
        return [DiagnosticDelta("upstream_error", error.message)]

    def _release(self) -> list[Delta]:
        """Return everything that was held back."""
        deltas: list[Delta] = [self._ending] if self._ending is not None else []
        self._ending = None
        for id, pieces in self._unnamed.items():
            deltas += [ToolCallDelta(key=id, id=id, arguments=piece) for piece in pieces]
        deltas += [AnnotationDelta(citation, self._text) for citation in self._citations]
        return deltas + self._hosted.close()

    def _left_out(self, type: str) -> list[Delta]:
        """Report an unknown part of a newer version, once per type."""
        if type in self._unknown:
            return []
        self._unknown.add(type)
        return [DiagnosticDelta("part_left_out", f"a stream part of type {type[:80]!r} was left out")]

    def _ignore(self, _part: JSON) -> list[Delta]:
        return []

    # Text and reasoning

    def _text_start(self, part: JSON) -> list[Delta]:
        id = _id(part)
        metadata = _providers(part)
        if any(each.get("type") == "compaction" for each in metadata.values()):
            self._compactions[id] = []
            return []
        self._text = id
        phases = [each["phase"] for each in metadata.values() if each.get("phase") in _PHASES]
        return [BlockStart(id, BlockKind.TEXT, phases[0] if phases else None), *self._seal(part, None)]

    def _text_delta(self, part: JSON) -> list[Delta]:
        id, text = _id(part), text_of(part.get("delta"))
        if id in self._compactions:
            self._compactions[id].append(text)
            return []
        deltas = self._seal(part, None)
        if not text:
            return deltas
        self._text = id
        deltas.append(TextDelta(text, block=id))
        deltas += [AnnotationDelta(citation, block=id) for citation in self._citations]
        self._citations.clear()
        return deltas

    def _text_end(self, part: JSON) -> list[Delta]:
        id = _id(part)
        if id in self._compactions:
            return self._compaction(id, "".join(self._compactions.pop(id)))
        for cited in objects_of(part.get("citations")):
            self._source(object_of(cited.get("source")))
        deltas: list[Delta] = [AnnotationDelta(citation, block=id) for citation in self._citations]
        self._citations.clear()
        deltas += self._seal(part, None)
        return self._hold(deltas, BlockEnd(id, BlockKind.TEXT))

    def _hold(self, deltas: list[Delta], end: BlockEnd) -> list[Delta]:
        previous, self._ending = self._ending, end
        return deltas if previous is None else [previous, *deltas]

    def _compaction(self, id: str, text: str) -> list[Delta]:
        """Return a summary that replaces the conversation so far. It is not part of the text (quirk A11)."""
        if not text:
            return [DiagnosticDelta("compaction_left_out", "the upstream sent a compaction without content")]
        item = Compaction(encrypted_content=seal(self._target, {"type": "compaction", "text": text}))
        return [ItemDelta(f"compaction {id}", item, done=True)]

    def _reasoning_start(self, part: JSON) -> list[Delta]:
        return [BlockStart(_id(part), BlockKind.REASONING), *self._seal(part, _id(part))]

    def _reasoning_delta(self, part: JSON) -> list[Delta]:
        id, text = _id(part), text_of(part.get("delta"))
        deltas: list[Delta] = [ReasoningDelta(text, block=id)] if text else []
        return deltas + self._seal(part, id)

    def _reasoning_end(self, part: JSON) -> list[Delta]:
        id = _id(part)
        return self._hold(self._seal(part, id), BlockEnd(id, BlockKind.REASONING))

    def _seal(self, part: JSON, block: str | None, call: str | None = None) -> list[Delta]:
        """Return signatures and encrypted reasoning, sealed. Providers repeat them; they are emitted once."""
        payload = {
            name: metadata
            for name, metadata in _providers(part).items()
            if any(metadata.get(f) for f in OPAQUE)
        }
        if not payload:
            return []
        attached = "block" if call is None else "call"
        data = seal(
            self._target, payload if call is None else {**payload, "toolCallId": call}, attached=attached
        )
        if data in self._sealed:
            return []
        self._sealed.add(data)
        return [OpaqueReasoning(data, block=block, call=call)]

    # Sources

    def _source(self, part: JSON) -> list[Delta]:
        """Read a source. It belongs to the open text block, or else to the next one."""
        citation = self._citation(part)
        if citation is None:
            if text_of(part.get("url")):
                return []
            title = text_of(part.get("title")) or text_of(part.get("filename"))
            return [DiagnosticDelta("source_left_out", f"a source without a URL was left out: {title[:200]}")]
        self._citations.append(citation)
        return []

    def _citation(self, source: JSON) -> UrlCitation | None:
        """Return a citation, once per page: a search result may also be cited in the text."""
        url = text_of(source.get("url"))
        if not url or url in self._cited:
            return None
        self._cited.add(url)
        return UrlCitation(url=url, title=text_of(source.get("title")))

    # Tools

    def _input_start(self, part: JSON) -> list[Delta]:
        id, name = _id(part), text_of(part.get("toolName"))
        if part.get("providerExecuted") is True or id in self._hosted:
            return self._hosted.start(id, part)
        return self._begin(id, part, name)

    def _begin(self, id: str, part: JSON, name: str) -> list[Delta]:
        deltas = self._seal(part, None, id)
        deltas.append(ToolCallDelta(key=id, id=id, name=name or None))
        self._started.add(id)
        pieces = self._unnamed.pop(id, [])
        return deltas + [ToolCallDelta(key=id, id=id, arguments=piece) for piece in pieces]

    def _input_delta(self, part: JSON) -> list[Delta]:
        id, text = _id(part), text_of(part.get("delta"))
        if id in self._hosted or not text:
            return []
        if id in self._started:
            return [ToolCallDelta(key=id, id=id, arguments=text)]
        self._unnamed.setdefault(id, []).append(text)
        return []

    def _tool_call(self, part: JSON) -> list[Delta]:
        id, name = text_of(part.get("toolCallId")) or _id(part), text_of(part.get("toolName"))
        if part.get("providerExecuted") is True or id in self._hosted:
            self._unnamed.pop(id, None)
            return self._hosted.start(id, part)
        deltas = self._begin(id, part, name) if id not in self._started else self._seal(part, None, id)
        return [*deltas, self._complete_call(id, name, part.get("input"))]

    def _complete_call(self, id: str, name: str, input: Any) -> ToolCallDelta:
        """Return a complete call. Its input is JSON in text form; some producers send the object itself."""
        declared = self._tools.called(name)
        text = input if isinstance(input, str | dict) else ""
        if isinstance(text, str) and declared is not None and declared.type == "custom":
            inner = _json_string(text)
            if inner is not None:
                return ToolCallDelta(key=id, id=id, name=name, type="custom", arguments=inner, whole=True)
        return ToolCallDelta(key=id, id=id, name=name or None, arguments=text, whole=True)

    def _tool_result(self, part: JSON) -> list[Delta]:
        id = text_of(part.get("toolCallId")) or _id(part)
        if id in self._started:
            message = "the upstream sent a result for a call that the client runs; it was left out"
            return [DiagnosticDelta("tool_result_left_out", message)]
        return self._hosted.result(id, part)

    def _file(self, part: JSON) -> list[Delta]:
        kind = text_of(part.get("mediaType"))
        return [DiagnosticDelta("file_left_out", f"a generated file of type {kind[:80]!r} was left out")]

    def _custom(self, part: JSON) -> list[Delta]:
        kind = text_of(part.get("kind"))
        if kind.endswith(".message_start"):
            return []  # repeats what other parts contain
        return [DiagnosticDelta("part_left_out", f"a custom part of kind {kind[:80]!r} was left out")]


HANDLERS: dict[str, Callable[[AiSdkReader, JSON], list[Delta]]] = {
    "stream-start": AiSdkReader._stream_start,
    "response-metadata": AiSdkReader._metadata,
    "text-start": AiSdkReader._text_start,
    "text-delta": AiSdkReader._text_delta,
    "text-end": AiSdkReader._text_end,
    "reasoning-start": AiSdkReader._reasoning_start,
    "reasoning-delta": AiSdkReader._reasoning_delta,
    "reasoning-end": AiSdkReader._reasoning_end,
    "tool-input-start": AiSdkReader._input_start,
    "tool-input-delta": AiSdkReader._input_delta,
    "tool-input-end": AiSdkReader._ignore,
    "tool-call": AiSdkReader._tool_call,
    "tool-result": AiSdkReader._tool_result,
    "source": AiSdkReader._source,
    "file": AiSdkReader._file,
    "reasoning-file": AiSdkReader._file,
    "custom": AiSdkReader._custom,
    "raw": AiSdkReader._ignore,
    "ping": AiSdkReader._ignore,
    "finish": AiSdkReader._finish,
    "error": AiSdkReader._fail,
}
"""The handler of each part; any other part is left out with a diagnostic."""

CONTENT = frozenset(
    {
        *("text-start", "text-delta", "reasoning-start", "reasoning-delta"),
        *("tool-input-start", "tool-input-delta", "tool-call", "tool-result"),
    }
)
"""The parts that show that the block before them was not cut off."""


def _id(part: JSON) -> str:
    """Return the id of a block or call. It may be "", for producers with only one block."""
    return text_of(part.get("id")) or text_of(part.get("toolCallId"))


def _providers(part: JSON) -> dict[str, JSON]:
    metadata = object_of(part.get("providerMetadata"))
    return {name: each for name, each in metadata.items() if isinstance(each, dict)}


def _json_string(text: str) -> str | None:
    """Return the text in a JSON string; None if it is anything else."""
    if not text.lstrip().startswith('"'):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
