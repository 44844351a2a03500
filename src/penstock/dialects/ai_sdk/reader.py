"""Reads the stream parts of a language model of the AI SDK: one part a frame.

A tool call is told twice: while its input streams (`tool-input-start`, `-delta`, `-end`) and once more whole
(`tool-call`). Both go to one call, under the one id that they share, so no order, repeat or gap can make two
of it (ask B4). Its end is the `tool-call` and not `tool-input-end`, which also comes where a call is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.dialects.ai_sdk.ends import ERROR, FINISHES, INTERRUPTED, RAW_FINISHES, read_finish, read_usage
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

_CUT_SHORT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
_PHASES = ("commentary", "final_answer")


class AiSdkReader:
    """Reads one answer."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._tools = plan.tools
        self._hosted = HostedTools()
        self._started: set[str] = set()
        self._unnamed: dict[str, list[str]] = {}
        """Input that came before anything said whose call it is: the provider's or the client's."""
        self._sealed: set[str] = set()
        self._compactions: dict[str, list[str]] = {}
        self._text: str | None = None
        """The text block that is open, or was last."""
        self._citations: list[UrlCitation] = []
        self._cited: set[str] = set()
        self._ending: BlockEnd | None = None
        """The end of the last block, held back: if the answer was cut there, the block is not whole."""
        self._error: ErrorDelta | None = None
        self._unknown: set[str] = set()
        self._heard = False
        self._marked = False
        self._over = False

    @property
    def is_over(self) -> bool:
        return self._over

    def feed(self, frame: Frame) -> list[Delta]:
        if self._over or not frame.data.strip():
            return []
        if frame.data.strip() == DONE:
            self._marked = True
            return []
        part = read_object(frame)
        if isinstance(part, ErrorDelta):
            self._over = True
            return [part]
        return self.read_part(part)

    def read_part(self, part: JSON) -> list[Delta]:
        type = text_of(part.get("type"))
        self._heard = self._heard or type != "ping"
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
            return [*self._leave(), self._error]
        if self._marked and self._heard:
            return [*self._leave(), FinishDelta(FinishReason.STOP)]
        if self._heard:
            return [*self._leave(), ErrorDelta("upstream_truncated", "the upstream ended without a finish")]
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
        told: list[Delta] = [usage]
        self._over = True
        if self._error is None and unified == ERROR:
            self._error = ErrorDelta(
                "server_error", f"the upstream finished with an error {raw[:80]}".strip()
            )
        if self._error is None and unified == INTERRUPTED:
            self._error = ErrorDelta("upstream_truncated", "the upstream's answer was interrupted")
        if self._error is not None:
            return [*self._leave(), *told, self._error]
        if reason is None:
            reason = FinishReason.STOP
            told.append(DiagnosticDelta("unknown_finish", f"unknown finish reason {unified[:80]!r}"))
        if reason in _CUT_SHORT:
            self._ending = None
        return [*self._leave(), *told, FinishDelta(reason)]

    def _fail(self, part: JSON) -> list[Delta]:
        """An error. More may follow, the usage at least, so the failure is told at the end."""
        error = error_delta({"error": part.get("error")})
        if self._error is None:
            self._error = error
            return []
        return [DiagnosticDelta("upstream_error", error.message)]

    def _leave(self) -> list[Delta]:
        """What is still held back."""
        deltas: list[Delta] = [self._ending] if self._ending is not None else []
        self._ending = None
        for id, pieces in self._unnamed.items():
            deltas += [ToolCallDelta(key=id, id=id, arguments=piece) for piece in pieces]
        deltas += [AnnotationDelta(citation, self._text) for citation in self._citations]
        return deltas + self._hosted.close()

    def _left_out(self, type: str) -> list[Delta]:
        """Newer versions have more parts; each kind is told once."""
        if type in self._unknown:
            return []
        self._unknown.add(type)
        return [DiagnosticDelta("part_left_out", f"a stream part of type {type[:80]!r} was left out")]

    def _nothing(self, _part: JSON) -> list[Delta]:
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
        before, self._ending = self._ending, end
        return deltas if before is None else [before, *deltas]

    def _compaction(self, id: str, text: str) -> list[Delta]:
        """A summary that stands for the conversation from now on: no text for a reader (quirk A11)."""
        if not text:
            return [DiagnosticDelta("compaction_left_out", "the upstream sent a compaction without content")]
        item = Compaction(encrypted_content=seal(self._target, {"type": "compaction", "text": text}))
        return [ItemDelta(f"compaction {id}", item, done=True)]

    def _reasoning_start(self, part: JSON) -> list[Delta]:
        return [BlockStart(_id(part), BlockKind.REASONING), *self._seal(part, _id(part))]

    def _reasoning_delta(self, part: JSON) -> list[Delta]:
        id, text = _id(part), text_of(part.get("delta"))
        said: list[Delta] = [ReasoningDelta(text, block=id)] if text else []
        return said + self._seal(part, id)

    def _reasoning_end(self, part: JSON) -> list[Delta]:
        id = _id(part)
        return self._hold(self._seal(part, id), BlockEnd(id, BlockKind.REASONING))

    def _seal(self, part: JSON, block: str | None, call: str | None = None) -> list[Delta]:
        """Signatures and encrypted reasoning. A provider repeats them from part to part; once is enough."""
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
        """A source belongs to the text that is open, else to the next one."""
        citation = self._citation(part)
        if citation is None:
            if text_of(part.get("url")):
                return []
            title = text_of(part.get("title")) or text_of(part.get("filename"))
            return [DiagnosticDelta("source_left_out", f"a source without a URL was left out: {title[:200]}")]
        self._citations.append(citation)
        return []

    def _citation(self, source: JSON) -> UrlCitation | None:
        """The same page is a source of a search, and is cited in the text: once is enough."""
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
        return [*deltas, self._whole(id, name, part.get("input"))]

    def _whole(self, id: str, name: str, given: Any) -> ToolCallDelta:
        """The call with all of its input, which is JSON as text; sloppy producers send the object itself."""
        declared = self._tools.called(name)
        text = given if isinstance(given, str | dict) else ""
        if isinstance(text, str) and declared is not None and declared.type == "custom":
            inner = _json_string(text)
            if inner is not None:
                return ToolCallDelta(key=id, id=id, name=name, type="custom", arguments=inner, whole=True)
        return ToolCallDelta(key=id, id=id, name=name or None, arguments=text, whole=True)

    def _tool_result(self, part: JSON) -> list[Delta]:
        id = text_of(part.get("toolCallId")) or _id(part)
        if id in self._started:
            return [DiagnosticDelta("tool_result_left_out", "the upstream answered a client's call itself")]
        return self._hosted.result(id, part)

    def _file(self, part: JSON) -> list[Delta]:
        kind = text_of(part.get("mediaType"))
        return [DiagnosticDelta("file_left_out", f"a generated file of type {kind[:80]!r} was left out")]

    def _custom(self, part: JSON) -> list[Delta]:
        kind = text_of(part.get("kind"))
        if kind.endswith(".message_start"):
            return []  # says nothing that other parts do not
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
    "tool-input-end": AiSdkReader._nothing,
    "tool-call": AiSdkReader._tool_call,
    "tool-result": AiSdkReader._tool_result,
    "source": AiSdkReader._source,
    "file": AiSdkReader._file,
    "reasoning-file": AiSdkReader._file,
    "custom": AiSdkReader._custom,
    "raw": AiSdkReader._nothing,
    "ping": AiSdkReader._nothing,
    "finish": AiSdkReader._finish,
    "error": AiSdkReader._fail,
}
"""What each part does; any other is left out with a diagnostic."""

CONTENT = frozenset(
    {
        *("text-start", "text-delta", "reasoning-start", "reasoning-delta"),
        *("tool-input-start", "tool-input-delta", "tool-call", "tool-result"),
    }
)
"""The parts that show that the block before them was not cut."""


def _id(part: JSON) -> str:
    """The id of a block or call; "" is one as well, for producers that have only one block."""
    return text_of(part.get("id")) or text_of(part.get("toolCallId"))


def _providers(part: JSON) -> dict[str, JSON]:
    metadata = object_of(part.get("providerMetadata"))
    return {name: each for name, each in metadata.items() if isinstance(each, dict)}


def _json_string(text: str) -> str | None:
    """The text in a JSON string."""
    if not text.lstrip().startswith('"'):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
