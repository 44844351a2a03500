"""Reads a stream of Anthropic's Messages API, from Anthropic and from everybody else who speaks it.

Thinking and tool calls are keyed by the index of their block. Text is not: an answer with citations comes in
dozens of text blocks, and text blocks that follow each other are one message here (`TextRun`).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.anthropic.finishes import CUT_SHORT, notes_on, reason_in
from penstock.dialects.anthropic.server_tools import RESULT_SUFFIX, AnthropicServerTools
from penstock.dialects.anthropic.usage import AnthropicUsage
from penstock.dialects.envelope import seal
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
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)

_TIERS = {"standard": "default", "priority": "priority"}
"""Anthropic's service tiers in OpenAI's words."""

_SHOWN = 100
"""How much of a word that may be anything is looked at."""

_METRICS = "amazon-bedrock-invocationMetrics"
_CITATION_FIELDS = ("type", "url", "title", "start_index", "end_index")


class AnthropicBlock(ContentBlock):
    """A content block. A delta that no start came before makes one without a type."""

    type: str = ""
    signature: str = ""
    compaction: dict[str, str] = {}
    """What there is to seal of a compaction."""


class AnthropicReader(TextRuns):
    """One answer."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._target = plan.target
        self._usage = AnthropicUsage()
        self._tools = AnthropicServerTools()
        self._blocks: dict[Key, AnthropicBlock] = {}
        self._latest: Key = 0
        self._message: str | None = None
        self._begun = False
        self._finished = False
        self._over = False
        self._whole = True
        """Unless the stop reason says that there was more to come."""

    @property
    def is_over(self) -> bool:
        return self._over

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data.strip() == DONE:
            self._over = True
            return []
        value = read_object(frame)
        if isinstance(value, ErrorDelta):
            return self._fail(value)
        return self._take(value, frame.event or "")

    def end(self) -> list[Delta]:
        if not self._begun:
            return [ErrorDelta("upstream_empty", "the upstream ended without having sent anything")]
        deltas = [
            delta for block in self._blocks.values() if not block.stopped for delta in self._told(block)
        ]
        if not self._finished and not self._over:
            cut = ErrorDelta("upstream_truncated", "the upstream ended in the middle of its answer")
            return deltas + self._fail(cut)
        deltas += self._tools.close("completed" if self._whole else "incomplete")
        return deltas if self._finished else [*deltas, *self._ended(), FinishDelta(FinishReason.STOP)]

    # Events

    def _take(self, value: dict[str, Any], event: str) -> list[Delta]:
        type = (text_of(value.get("type")) or event)[:_SHOWN]
        handle = _EVENTS.get(type)
        if handle is None:
            return self._take_unknown(value, type)
        if self._over and type in _CONTENT:
            return [DiagnosticDelta("content_after_end", f"an event {type!r} after the end was left out")]
        self._begun = self._begun or type in _CONTENT
        return handle(self, value)

    def _take_unknown(self, value: dict[str, Any], type: str) -> list[Delta]:
        """What no event of the API is: Bedrock's wrapping of one, an error, or news to us."""
        wrapped = text_of(object_of(value.get("chunk", value)).get("bytes"))
        if wrapped and not type:
            return self._take_wrapped(wrapped)
        for name, said in value.items():
            if said is not None and (name == "error" or name.endswith("Exception")):
                return self._take_error({"type": name, "error": said})
        return [DiagnosticDelta("unknown_event", f"an event of type {type!r} was left out")]

    def _take_wrapped(self, data: str) -> list[Delta]:
        """An event as it lies in a frame of AWS's event stream (quirk A15)."""
        try:
            text = b64decode(data).decode()
        except ValueError:
            text = ""
        return self.feed(Frame(None, text))

    def _take_start(self, value: dict[str, Any]) -> list[Delta]:
        message = object_of(value.get("message"))
        id = text_of(message.get("id"))
        if self._message is not None:
            if id == self._message:
                return []  # quirk A13: said twice
            return self._fail(
                ErrorDelta("server_error", f"the upstream began message {id!r} within {self._message!r}")
            )
        self._message = id
        tier = _TIERS.get(text_of(object_of(message.get("usage")).get("service_tier")))
        deltas: list[Delta] = [UpstreamInfo(id or None, text_of(message.get("model")) or None, tier)]
        deltas += self._usage.take(message.get("usage"))
        self._take_container(message)
        for index, block in enumerate(objects_of(message.get("content"))):
            # quirk A4: a message may come whole.
            deltas += self._start_block(index, block) + self._stop_block(self._block(index))
        return deltas + self._take_stop(message)

    def _take_block_start(self, value: dict[str, Any]) -> list[Delta]:
        return self._start_block(self._key(value), object_of(value.get("content_block")))

    def _take_block_delta(self, value: dict[str, Any]) -> list[Delta]:
        delta = object_of(value.get("delta"))
        type = text_of(delta.get("type"))[:_SHOWN]
        handle = _DELTAS.get(type)
        if handle is None:
            return [DiagnosticDelta("unknown_delta", f"a delta of type {type!r} was left out")]
        return handle(self, self._block(self._key(value)), delta)

    def _take_block_stop(self, value: dict[str, Any]) -> list[Delta]:
        return self._stop_block(self._block(self._key(value)))

    def _take_message_delta(self, value: dict[str, Any]) -> list[Delta]:
        delta = object_of(value.get("delta"))
        self._take_container(delta)
        deltas: list[Delta] = [*self._usage.take(value.get("usage"))]
        for edit in objects_of(object_of(value.get("context_management")).get("applied_edits")):
            name = text_of(edit.get("type"))
            deltas.append(DiagnosticDelta("context_edited", f"the upstream edited the context: {name}"))
        return deltas + self._take_stop(delta)

    def _take_message_stop(self, value: dict[str, Any]) -> list[Delta]:
        self._over = True
        return [*self._usage.take_metrics(value.get(_METRICS))]

    def _take_error(self, value: dict[str, Any]) -> list[Delta]:
        return self._fail(error_delta(value))

    def _take_ping(self, _value: dict[str, Any]) -> list[Delta]:
        return []

    def _take_container(self, said: dict[str, Any]) -> None:
        id = text_of(object_of(said.get("container")).get("id"))
        self._tools.container_id = id or self._tools.container_id

    def _take_stop(self, said: dict[str, Any]) -> list[Delta]:
        reason = reason_in(said)
        if reason is None:
            return []
        self._finished = True
        self._whole = reason in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        ends = [] if reason in CUT_SHORT else self._ended()
        return [*notes_on(said), *ends, FinishDelta(reason)]

    # Blocks

    def _key(self, value: dict[str, Any]) -> Key:
        """The index of a block; without one, the block that was spoken of last."""
        index = value.get("index")
        if isinstance(index, int | str):
            self._latest = index
        return self._latest

    def _block(self, key: Key) -> AnthropicBlock:
        return self._blocks.setdefault(key, AnthropicBlock(key))

    def _start_block(self, key: Key, content: dict[str, Any]) -> list[Delta]:
        before, self._ends = self._ends, []
        type = text_of(content.get("type"))[:_SHOWN]
        block = self._blocks[key] = AnthropicBlock(key, type=type)
        handle = _STARTS.get(type)
        if handle is not None:
            return before + handle(self, block, content)
        if type.endswith(RESULT_SUFFIX):
            return before + self._beside(self._tools.result(key, content))
        return [*before, DiagnosticDelta("unknown_block", f"a block of type {type!r} was left out")]

    def _stop_block(self, block: AnthropicBlock) -> list[Delta]:
        if block.stopped:
            return []
        block.stopped = True
        deltas = self._told(block)
        if block.type == "tool_use":
            end = ToolCallDelta(block.key, whole=True)
            # Without arguments a whole call looks like one that was cut off before them (quirk A14).
            if block.has_arguments:
                deltas.append(end)
            else:
                self._ends.append(end)
        elif block.type in ("thinking", "redacted_thinking"):
            self._ends.append(BlockEnd(block.key, BlockKind.REASONING))
        elif block.run is not None:
            block.run.open = False
        return deltas

    def _told(self, block: AnthropicBlock) -> list[Delta]:
        """What was held back until the block is over."""
        deltas: list[Delta] = []
        if block.citations:
            run = self._join(block)
            span = (block.begin, run.length)
            deltas += [AnnotationDelta(_annotation_of(each, *span), run.key) for each in block.citations]
            block.citations = []
        if block.signature:
            text = "".join(block.thinking)
            payload = {"type": "thinking", "thinking": text, "signature": block.signature}
            deltas += self._beside([OpaqueReasoning(seal(self._target, payload), block.key)])
        if block.type == "compaction":
            deltas += self._compaction(block)
        return deltas

    def _compaction(self, block: AnthropicBlock) -> list[Delta]:
        """The summary that stands for the conversation from now on; nothing for a reader (quirk A11)."""
        if not text_of(block.compaction.get("text")):
            return [DiagnosticDelta("compaction_left_out", "the upstream sent a compaction without content")]
        item = Compaction(encrypted_content=seal(self._target, block.compaction))
        return self._beside([ItemDelta(f"compaction_{block.key}", item, done=True)])

    def _fail(self, error: ErrorDelta) -> list[Delta]:
        return [*self._tools.close("incomplete"), error]

    # What a block starts with

    def _start_text(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        block.citations = objects_of(content.get("citations"))
        return self._text_delta(block, content)

    def _start_thinking(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        return self._thinking_delta(block, content) + self._signature_delta(block, content)

    def _start_redacted(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        data = text_of(content.get("data"))
        payload = {"type": "redacted_thinking", "data": data}
        return [] if not data else self._beside([OpaqueReasoning(seal(self._target, payload), block.key)])

    def _start_call(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        given = content.get("input")
        arguments = given if given and isinstance(given, dict | str) else None  # quirk A3
        block.has_arguments = arguments is not None
        id, name = text_of(content.get("id")), text_of(content.get("name"))
        return self._beside([ToolCallDelta(block.key, id, name, arguments=arguments)])

    def _start_server_tool(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        return self._beside(self._tools.start(block.key, content))

    def _start_compaction(self, block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        block.compaction = {"type": "compaction"}
        return self._compaction_delta(block, content)

    def _start_fallback(self, _block: AnthropicBlock, content: dict[str, Any]) -> list[Delta]:
        """Another model goes on with the answer (quirk A11)."""
        before, after = (text_of(object_of(content.get(name)).get("model")) for name in ("from", "to"))
        told = DiagnosticDelta("model_fallback", f"the upstream went on with {after!r} instead of {before!r}")
        return [UpstreamInfo(model=after or None), told]

    # What a delta adds

    def _text_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        text = text_of(delta.get("text"))
        if not text:
            return []
        run = self._join(block)
        run.length += len(text)
        return [TextDelta(text, run.key)]

    def _thinking_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        text = text_of(delta.get("thinking"))
        if not text:
            return []
        block.thinking.append(text)
        return self._beside([ReasoningDelta(text, block.key)])

    def _signature_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        """Kept until the block is over; the last one stands, as it does in Anthropic's own SDK."""
        if block.type not in ("thinking", ""):
            return [DiagnosticDelta("unexpected_delta", f"a signature in a {block.type} block was left out")]
        block.signature = text_of(delta.get("signature")) or block.signature
        return []

    def _citations_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        """Kept until the block is over: a citation is for the whole text of its block (quirk A8)."""
        block.citations += [citation] if (citation := object_of(delta.get("citation"))) else []
        return []

    def _input_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        fragment = text_of(delta.get("partial_json"))
        if not fragment:
            return []  # quirk A2
        if block.type in ("server_tool_use", "mcp_tool_use"):
            self._tools.feed(block.key, fragment)
            return []
        if block.type not in ("tool_use", ""):
            return [DiagnosticDelta("unexpected_delta", f"arguments in a {block.type} block were left out")]
        block.has_arguments = True
        return self._beside([ToolCallDelta(block.key, arguments=fragment)])

    def _compaction_delta(self, block: AnthropicBlock, delta: dict[str, Any]) -> list[Delta]:
        names = {"content": "text", "encrypted_content": "encrypted_content"}
        block.compaction |= {ours: text for name, ours in names.items() if (text := text_of(delta.get(name)))}
        return []


_EVENTS: dict[str, Callable[[AnthropicReader, dict[str, Any]], list[Delta]]] = {
    "message_start": AnthropicReader._take_start,
    "content_block_start": AnthropicReader._take_block_start,
    "content_block_delta": AnthropicReader._take_block_delta,
    "content_block_stop": AnthropicReader._take_block_stop,
    "message_delta": AnthropicReader._take_message_delta,
    "message_stop": AnthropicReader._take_message_stop,
    "error": AnthropicReader._take_error,
    "ping": AnthropicReader._take_ping,
}

_CONTENT = frozenset({"message_start", "content_block_start", "content_block_delta", "message_delta"})
"""What makes an answer: at least one of these has come, and none comes after the end."""

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


def _annotation_of(citation: dict[str, Any], start: int, end: int) -> Annotation:
    """A citation of the text from `start` to `end`.

    Clients know citations of pages on the web; a place in a document stays as the vendor describes it.
    """
    url = text_of(citation.get("url"))
    if url:
        rest = {name: value for name, value in citation.items() if name not in _CITATION_FIELDS}
        title = text_of(citation.get("title"))
        return UrlCitation(url=url, title=title, start_index=start, end_index=end, extra=rest)
    rest = {name: value for name, value in citation.items() if name != "type"}
    return UnknownAnnotation(type=text_of(citation.get("type")) or "citation", extra=rest)
