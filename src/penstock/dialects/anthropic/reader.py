"""Read a stream of Anthropic's Messages API, from Anthropic or any other vendor that supports it.

Thinking and tool calls are keyed by the index of their block. Text is not: an answer with citations has
dozens of text blocks, and consecutive text blocks become one message (`TextRun`).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.anthropic.common_chunks import (
    BlockInputPiece,
    BlockTextPiece,
    BlockThinkingPiece,
    CommonBlockDelta,
    read_common,
)
from penstock.dialects.anthropic.finishes import CUT_SHORT, finish_diagnostics, finish_reason_of
from penstock.dialects.anthropic.server_tools import AnthropicServerTools
from penstock.dialects.anthropic.turn_content import RESULT_SUFFIX, TurnContent
from penstock.dialects.anthropic.usage import AnthropicUsage
from penstock.dialects.envelope import seal, sealed_reasoning
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.dialects.text_runs import ContentBlock, TextRuns
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import Annotation, UnknownAnnotation, UrlCitation
from penstock.protocol.items import Compaction
from penstock.sse import Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    Key,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)

_TIERS = {"standard": "default", "priority": "priority"}
"""OpenAI's service tier for each of Anthropic's."""

_MAX_TYPE_LENGTH = 100
"""Characters of an arbitrary type name that are used."""

_METRICS = "amazon-bedrock-invocationMetrics"
_CITATION_FIELDS = ("type", "url", "title", "start_index", "end_index")


class AnthropicBlock(ContentBlock):
    """A content block. A delta without a preceding start creates one without a type."""

    type: str = ""
    signature: str = ""
    compaction: dict[str, str] = {}
    """The fields of a compaction to seal."""


class AnthropicReader(TextRuns):
    """Read one answer."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._target = plan.target
        self._usage = AnthropicUsage()
        self._tools = AnthropicServerTools()
        self._content = TurnContent(plan.target)
        self._blocks: dict[Key, AnthropicBlock] = {}
        self._latest: Key = 0
        self._message: str | None = None
        self._has_content = False
        self._finished = False
        self._is_over = False
        self._is_complete = True
        """False if the stop reason means that the answer was cut short or paused."""

    @property
    def is_over(self) -> bool:
        return self._is_over

    def feed(self, frame: Frame) -> list[Delta]:
        common = read_common(frame.data)
        if common is not None and not self._is_over:
            return self._read_common(common)
        if frame.data.strip() == DONE:
            self._is_over = True
            return []
        value = read_object(frame)
        if isinstance(value, ErrorDelta):
            return self._fail(value)
        return self._on_event(value, frame.event or "")

    def end(self) -> list[Delta]:
        if not self._has_content:
            return [ErrorDelta("upstream_empty", "the upstream's answer is empty")]
        deltas = [
            delta for block in self._blocks.values() if not block.stopped for delta in self._flush(block)
        ]
        if not self._finished and not self._is_over:
            cut = ErrorDelta("upstream_truncated", "the upstream's answer ended before it was complete")
            return deltas + self._fail(cut)
        deltas += self._tools.close("completed" if self._is_complete else "incomplete")
        return deltas if self._finished else [*deltas, *self._flush_ends(), FinishDelta(FinishReason.STOP)]

    # Events

    def _read_common(self, event: CommonBlockDelta) -> list[Delta]:
        """Return what `_on_event` returns for this event. It leaves out the steps that would find nothing."""
        self._has_content = True
        key = self._latest = event.index
        text = event.delta.text
        if not text:
            self._block(key)
            return []
        field, add = _PIECES[event.delta.__class__]
        self._content.add(key, field, text)
        return add(self, self._block(key), text)

    def _on_event(self, value: dict[str, Any], event: str) -> list[Delta]:
        type = (text_of(value.get("type")) or event)[:_MAX_TYPE_LENGTH]
        handle = _EVENTS.get(type)
        if handle is None:
            return self._on_unknown(value, type)
        if self._is_over and type in _CONTENT:
            return [
                DiagnosticDelta("content_after_end", f"an event of type {type!r} after the end was left out")
            ]
        self._has_content = self._has_content or type in _CONTENT
        return handle(self, value)

    def _on_unknown(self, value: dict[str, Any], type: str) -> list[Delta]:
        """Read an event without a known type: one that Bedrock wrapped, an error, or an unknown event."""
        wrapped = text_of(object_of(value.get("chunk", value)).get("bytes"))
        if wrapped and not type:
            return self._on_wrapped(wrapped)
        for name, error in value.items():
            if error is not None and (name == "error" or name.endswith("Exception")):
                return self._on_error({"type": name, "error": error})
        return [DiagnosticDelta("unknown_event", f"an event of type {type!r} was left out")]

    def _on_wrapped(self, data: str) -> list[Delta]:
        """Read an event wrapped in a frame of AWS's event stream (quirk A15)."""
        try:
            text = b64decode(data).decode()
        except ValueError:
            text = ""
        return self.feed(Frame(None, text))

    def _on_message_start(self, value: dict[str, Any]) -> list[Delta]:
        message = object_of(value.get("message"))
        id = text_of(message.get("id"))
        if self._message is not None:
            if id == self._message:
                return []  # quirk A13: sent twice
            return self._fail(
                ErrorDelta(
                    "server_error", f"the upstream started message {id!r} inside message {self._message!r}"
                )
            )
        self._message = id
        tier = _TIERS.get(text_of(object_of(message.get("usage")).get("service_tier")))
        deltas: list[Delta] = [UpstreamInfo(id or None, text_of(message.get("model")) or None, tier)]
        deltas += self._usage.add(message.get("usage"))
        self._store_container(message)
        for index, block in enumerate(objects_of(message.get("content"))):
            # quirk A4: a message may arrive in one event.
            deltas += self._start_block(index, block) + self._stop_block(self._block(index))
        return deltas + self._read_stop_reason(message)

    def _on_block_start(self, value: dict[str, Any]) -> list[Delta]:
        return self._start_block(self._key(value), object_of(value.get("content_block")))

    def _on_block_delta(self, value: dict[str, Any]) -> list[Delta]:
        delta = object_of(value.get("delta"))
        type = text_of(delta.get("type"))[:_MAX_TYPE_LENGTH]
        handle = _DELTAS.get(type)
        if handle is None:
            return [DiagnosticDelta("unknown_delta", f"a delta of type {type!r} was left out")]
        key = self._key(value)
        self._content.feed(key, delta)
        return handle(self, self._block(key), delta)

    def _on_block_stop(self, value: dict[str, Any]) -> list[Delta]:
        return self._stop_block(self._block(self._key(value)))

    def _on_message_delta(self, value: dict[str, Any]) -> list[Delta]:
        delta = object_of(value.get("delta"))
        self._store_container(delta)
        deltas: list[Delta] = [*self._usage.add(value.get("usage"))]
        for edit in objects_of(object_of(value.get("context_management")).get("applied_edits")):
            name = text_of(edit.get("type"))
            deltas.append(DiagnosticDelta("context_edited", f"the upstream edited the context: {name}"))
        return deltas + self._read_stop_reason(delta)

    def _on_message_stop(self, value: dict[str, Any]) -> list[Delta]:
        self._is_over = True
        return [*self._usage.add_metrics(value.get(_METRICS))]

    def _on_error(self, value: dict[str, Any]) -> list[Delta]:
        return self._fail(error_delta(value))

    def _on_ping(self, _value: dict[str, Any]) -> list[Delta]:
        return []

    def _store_container(self, message: dict[str, Any]) -> None:
        id = text_of(object_of(message.get("container")).get("id"))
        self._tools.container_id = id or self._tools.container_id

    def _read_stop_reason(self, message: dict[str, Any]) -> list[Delta]:
        reason = finish_reason_of(message)
        if reason is None:
            return []
        self._finished = True
        self._is_complete = reason in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        ends = [] if reason in CUT_SHORT else self._flush_ends()
        ends += self._content.at_end(is_paused=reason is FinishReason.PAUSE)
        return [*finish_diagnostics(message), *ends, FinishDelta(reason)]

    # Blocks

    def _key(self, value: dict[str, Any]) -> Key:
        """Return the index of a block; without one, the block of the previous event."""
        index = value.get("index")
        if isinstance(index, int | str):
            self._latest = index
        return self._latest

    def _block(self, key: Key) -> AnthropicBlock:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = AnthropicBlock(key)
        return block

    def _start_block(self, key: Key, content: dict[str, Any]) -> list[Delta]:
        before, self._ends = self._ends, []
        type = text_of(content.get("type"))[:_MAX_TYPE_LENGTH]
        block = self._blocks[key] = AnthropicBlock(key, type=type)
        self._content.start(key, content)
        handle = _STARTS.get(type)
        if handle is not None:
            return before + handle(self, block, content)
        if type.endswith(RESULT_SUFFIX):
            return before + self._end_text_before(self._tools.result(key, content))
        return [*before, DiagnosticDelta("unknown_block", f"a block of type {type!r} was left out")]

    def _stop_block(self, block: AnthropicBlock) -> list[Delta]:
        if block.stopped:
            return []
        block.stopped = True
        deltas = self._flush(block)
        if block.type == "tool_use":
            end = ToolCallDelta(block.key, whole=True)
            # A complete call without arguments looks like one that was cut off before them (quirk A14).
            if block.has_arguments:
                deltas.append(end)
            else:
                self._ends.append(end)
        elif block.type in ("thinking", "redacted_thinking"):
            self._ends.append(BlockEnd(block.key, BlockKind.REASONING))
        elif block.run is not None:
            block.run.open = False
        return deltas

    def _flush(self, block: AnthropicBlock) -> list[Delta]:
        """Return the deltas that were held back until the end of the block."""
        deltas: list[Delta] = []
        if block.citations:
            run = self._join(block)
            span = (block.begin, run.length)
            deltas += [AnnotationDelta(_annotation_of(each, *span), run.key) for each in block.citations]
            block.citations = []
        if block.signature:
            text = "".join(block.thinking)
            payload = {"type": "thinking", "thinking": text, "signature": block.signature}
            deltas += self._end_text_before([sealed_reasoning(self._target, payload, block=block.key)])
        if block.type == "compaction":
            deltas += self._compaction(block)
        return deltas

    def _compaction(self, block: AnthropicBlock) -> list[Delta]:
        """Return the summary that replaces the conversation so far; it is not shown to users (quirk A11)."""
        if not text_of(block.compaction.get("text")):
            return [DiagnosticDelta("compaction_left_out", "the upstream sent a compaction without content")]
        item = Compaction(encrypted_content=seal(self._target, block.compaction))
        return self._end_text_before([ItemDelta(f"compaction_{block.key}", item, done=True)])

    def _fail(self, error: ErrorDelta) -> list[Delta]:
        return [*self._tools.close("incomplete"), error]

    # Starts of blocks

    def _start_text(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        block.citations = objects_of(content.get("citations"))
        return self._text_delta(block, content)

    def _start_thinking(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        return self._thinking_delta(block, content) + self._signature_delta(block, content)

    def _start_redacted(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        data = text_of(content.get("data"))
        payload = {"type": "redacted_thinking", "data": data}
        if not data:
            return []
        return self._end_text_before([sealed_reasoning(self._target, payload, block=block.key)])

    def _start_call(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        input = content.get("input")
        arguments = input if input and isinstance(input, dict | str) else None  # quirk A3
        block.has_arguments = arguments is not None
        id, name = text_of(content.get("id")), text_of(content.get("name"))
        call = ToolCallDelta(block.key, id, name, arguments=arguments)
        return self._end_text_before([*self._content.before_call(), call])

    def _start_server_tool(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        return self._end_text_before(self._tools.start(block.key, content))

    def _start_compaction(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        block.compaction = {"type": "compaction"}
        return self._compaction_delta(block, content)

    def _start_fallback(self, _block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        """Report that another model continues the answer (quirk A11)."""
        before, after = (text_of(object_of(content.get(name)).get("model")) for name in ("from", "to"))
        message = f"the upstream continued with {after!r} instead of {before!r}"
        return [UpstreamInfo(model=after or None), DiagnosticDelta("model_fallback", message)]

    # Deltas of blocks

    def _text_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        text = text_of(delta.get("text"))
        return self._add_text(block, text) if text else []

    def _add_text(self, block: AnthropicBlock, text: str) -> list[Delta]:
        run = self._join(block)
        run.length += len(text)
        return [TextDelta(text, run.key)]

    def _thinking_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        text = text_of(delta.get("thinking"))
        return self._add_thinking(block, text) if text else []

    def _add_thinking(self, block: AnthropicBlock, text: str) -> list[Delta]:
        block.thinking.append(text)
        return self._end_text_before([ReasoningDelta(text, block.key)])

    def _signature_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        """Store the signature until the end of the block; the last one is used, as in Anthropic's own SDK."""
        if block.type not in ("thinking", ""):
            return [DiagnosticDelta("unexpected_delta", f"a signature in a {block.type} block was left out")]
        block.signature = text_of(delta.get("signature")) or block.signature
        return []

    def _citations_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        """Store the citation until the end of the block: it applies to the block's whole text (quirk A8)."""
        block.citations += [citation] if (citation := object_of(delta.get("citation"))) else []
        return []

    def _input_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        fragment = text_of(delta.get("partial_json"))
        return self._add_input(block, fragment) if fragment else []  # quirk A2

    def _add_input(self, block: AnthropicBlock, fragment: str) -> list[Delta]:
        if block.type in ("server_tool_use", "mcp_tool_use"):
            self._tools.feed(block.key, fragment)
            return []
        if block.type not in ("tool_use", ""):
            return [DiagnosticDelta("unexpected_delta", f"arguments in a {block.type} block were left out")]
        block.has_arguments = True
        return self._end_text_before([ToolCallDelta(block.key, arguments=fragment)])

    def _compaction_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        names = {"content": "text", "encrypted_content": "encrypted_content"}
        block.compaction |= {ours: text for name, ours in names.items() if (text := text_of(delta.get(name)))}
        return []


_EVENTS: dict[str, Callable[[AnthropicReader, dict[str, Any]], list[Delta]]] = {
    "message_start": AnthropicReader._on_message_start,
    "content_block_start": AnthropicReader._on_block_start,
    "content_block_delta": AnthropicReader._on_block_delta,
    "content_block_stop": AnthropicReader._on_block_stop,
    "message_delta": AnthropicReader._on_message_delta,
    "message_stop": AnthropicReader._on_message_stop,
    "error": AnthropicReader._on_error,
    "ping": AnthropicReader._on_ping,
}

_CONTENT = frozenset({"message_start", "content_block_start", "content_block_delta", "message_delta"})
"""Events with content. An answer has at least one of them, and none after its end."""

_STARTS: dict[str, Callable[[AnthropicReader, AnthropicBlock, dict[str, Any]], list[Delta]]] = {
    "text": AnthropicReader._start_text,
    "thinking": AnthropicReader._start_thinking,
    "redacted_thinking": AnthropicReader._start_redacted,
    "tool_use": AnthropicReader._start_call,
    "server_tool_use": AnthropicReader._start_server_tool,
    "mcp_tool_use": AnthropicReader._start_server_tool,
    "compaction": AnthropicReader._start_compaction,
    "fallback": AnthropicReader._start_fallback,
}

_DELTAS: dict[str, Callable[[AnthropicReader, AnthropicBlock, dict[str, Any]], list[Delta]]] = {
    "text_delta": AnthropicReader._text_delta,
    "thinking_delta": AnthropicReader._thinking_delta,
    "signature_delta": AnthropicReader._signature_delta,
    "citations_delta": AnthropicReader._citations_delta,
    "input_json_delta": AnthropicReader._input_delta,
    "compaction_delta": AnthropicReader._compaction_delta,
}

_PIECES: dict[type, tuple[str, Callable[[AnthropicReader, AnthropicBlock, str], list[Delta]]]] = {
    BlockTextPiece: ("text", AnthropicReader._add_text),
    BlockThinkingPiece: ("thinking", AnthropicReader._add_thinking),
    BlockInputPiece: ("input", AnthropicReader._add_input),
}
"""The field of the block that each common piece extends, and its handler."""


def _annotation_of(citation: dict[str, Any], start: int, end: int) -> Annotation:
    """Return a citation of the text from `start` to `end`.

    Clients know citations of web pages, which a search result has as its source; a place in a document stays
    as the vendor describes it.
    """
    source = text_of(citation.get("source"))
    url = text_of(citation.get("url")) or (source if source.startswith(("http://", "https://")) else "")
    if url:
        rest = {name: value for name, value in citation.items() if name not in _CITATION_FIELDS}
        title = text_of(citation.get("title"))
        return UrlCitation(url=url, title=title, start_index=start, end_index=end, extra=rest)
    rest = {name: value for name, value in citation.items() if name != "type"}
    return UnknownAnnotation(type=text_of(citation.get("type")) or "citation", extra=rest)
