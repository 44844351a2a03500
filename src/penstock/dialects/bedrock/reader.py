"""Read a stream of Bedrock's Converse API: one JSON object per event, named by its only key.

Text blocks have no start, and Nova sends a block for every token; consecutive text blocks become one message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.dialects.bedrock.server_tools import BedrockServerTools
from penstock.dialects.bedrock.usage import usage_of
from penstock.dialects.envelope import seal
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.dialects.text_runs import ContentBlock, TextRuns
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import Annotation, UnknownAnnotation, UrlCitation
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
    Key,
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)

FINISHES: dict[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
}
"""The finish reason for each stop reason. Any other is a normal stop, with a diagnostic."""

FAILURES = ("malformed_model_output", "malformed_tool_use")
"""Stop reasons that make the answer unusable."""

_CUT_SHORT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


class _Block(ContentBlock):
    """A block. Most have no start: the deltas determine the kind."""

    kind: str = ""
    signatures: list[str] = []


class BedrockReader(TextRuns):
    """Read one answer."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._target = plan.target
        self._tools = BedrockServerTools()
        self._blocks: dict[Key, _Block] = {}
        self._latest: Key = 0
        self._has_content = False
        self._finish: FinishReason | ErrorDelta | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return False  # the usage arrives after the end

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data.strip() == DONE:
            self._is_over = True
            return []
        value = read_object(frame)
        if isinstance(value, ErrorDelta):
            return self._fail(value)
        if frame.event in _EVENTS and frame.event not in value:
            value = {frame.event: value}  # the framing of AWS names the event outside the JSON
        return [delta for name, event in value.items() for delta in self._on_event(name, event)]

    def end(self) -> list[Delta]:
        if not self._has_content:
            return [ErrorDelta("upstream_empty", "the upstream's answer is empty")]
        deltas = [
            delta for block in self._blocks.values() if not block.stopped for delta in self._flush(block)
        ]
        if self._finish is None and not self._is_over:
            self._finish = ErrorDelta(
                "upstream_truncated", "the upstream's answer ended before it was complete"
            )
        if isinstance(self._finish, ErrorDelta):
            return deltas + self._fail(self._finish)
        status = "incomplete" if self._finish in _CUT_SHORT else "completed"
        deltas += self._tools.close(status)
        return deltas if self._finish else [*deltas, *self._flush_ends(), FinishDelta(FinishReason.STOP)]

    # Events

    def _on_event(self, name: str, event: Any) -> list[Delta]:
        handle = _EVENTS.get(name)
        if handle is not None:
            self._has_content = True
            return handle(self, object_of(event))
        if name == "error" or name.endswith("Exception"):
            return self._fail(error_delta({"type": name, "error": event}))
        if name == _PADDING:
            return []
        return [DiagnosticDelta("unknown_event", f"an event of type {name[:100]!r} was left out")]

    def _on_message_start(self, _event: dict[str, Any]) -> list[Delta]:
        return []

    def _on_block_start(self, event: dict[str, Any]) -> list[Delta]:
        block, before = self._open(self._key(event))
        start = object_of(event.get("start"))
        call, result = object_of(start.get("toolUse")), object_of(start.get("toolResult"))
        if call.get("type") == "server_tool_use":
            block.kind = "server"
            started = self._end_text_before(self._tools.start(block.key, call))
            return before + started + self._arguments(block, call)
        if call:
            return before + self._start_call(block, call)
        if result:
            block.kind = "result"
            self._tools.start_result(block.key, result)
            return before
        if not start:
            return before
        names = ", ".join(start)[:100]
        return [*before, DiagnosticDelta("unknown_block", f"a block with {names} was left out")]

    def _on_block_delta(self, event: dict[str, Any]) -> list[Delta]:
        key = self._key(event)
        block, deltas = (self._blocks[key], []) if key in self._blocks else self._open(key)
        for name, value in object_of(event.get("delta")).items():
            handle = _DELTAS.get(name)
            if handle is None:
                deltas.append(DiagnosticDelta("unknown_delta", f"a delta with {name[:100]!r} was left out"))
            else:
                deltas += handle(self, block, value)
        return deltas

    def _on_block_stop(self, event: dict[str, Any]) -> list[Delta]:
        block = self._blocks.get(self._key(event))
        if block is None or block.stopped:
            return []
        block.stopped = True
        deltas = self._flush(block)
        if block.kind == "call":
            end = ToolCallDelta(block.key, whole=True)
            # A complete call without arguments looks like one that was cut off before them (quirk A14).
            if block.has_arguments:
                deltas.append(end)
            else:
                self._ends.append(end)
        elif block.kind == "reasoning":
            self._ends.append(BlockEnd(block.key, BlockKind.REASONING))
        elif block.kind == "result":
            deltas += self._end_text_before(self._tools.end_result(block.key))
        elif block.run is not None:
            block.run.open = False
        return deltas

    def _on_message_stop(self, event: dict[str, Any]) -> list[Delta]:
        """Read the end of the content; the usage follows."""
        name = text_of(event.get("stopReason"))
        self._is_over = True
        if not name:
            return []
        if name in FAILURES:
            # Fail in `end`: the usage is still to come.
            self._finish = ErrorDelta("server_error", f"the model's answer is unusable: {name}")
            return []
        reason = self._finish = FINISHES.get(name, FinishReason.STOP)
        deltas: list[Delta] = []
        if name not in FINISHES:
            deltas.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {name!r}"))
        if reason not in _CUT_SHORT:
            deltas += self._flush_ends()
        return [*deltas, FinishDelta(reason)]

    def _on_metadata(self, event: dict[str, Any]) -> list[Delta]:
        """Read the last event: the usage, what a guardrail did, and which model a router chose."""
        deltas: list[Delta] = [*usage_of(object_of(event.get("usage")))]
        trace = object_of(event.get("trace"))
        if model := text_of(object_of(trace.get("promptRouter")).get("invokedModelId")):
            deltas.append(UpstreamInfo(model=model))
        if action := text_of(object_of(trace.get("guardrail")).get("actionReason")):
            deltas.append(DiagnosticDelta("guardrail", f"a guardrail of the upstream intervened: {action}"))
        return deltas

    def _on_metrics(self, event: dict[str, Any]) -> list[Delta]:
        return [*usage_of(event)]

    # Blocks

    def _key(self, event: dict[str, Any]) -> Key:
        """Return the index of a block; without one, the block of the previous event."""
        index = event.get("contentBlockIndex")
        if isinstance(index, int | str):
            self._latest = index
        return self._latest

    def _open(self, key: Key) -> tuple[_Block, list[Delta]]:
        """Return a new block, and the deltas that end the previous one."""
        block = self._blocks[key] = _Block(key)
        before, self._ends = self._ends, []
        return block, before

    def _flush(self, block: _Block) -> list[Delta]:
        """Return the deltas that were held back until the end of the block."""
        deltas: list[Delta] = []
        if block.citations:
            run = self._join(block)
            span = (block.begin, run.length)
            deltas += [AnnotationDelta(_annotation(each, *span), run.key) for each in block.citations]
            block.citations = []
        if block.signatures:
            signed = {"text": "".join(block.thinking), "signature": "".join(block.signatures)}
            sealed = seal(self._target, {"reasoningText": signed})
            deltas += self._end_text_before([OpaqueReasoning(sealed, block.key)])
        return deltas

    def _fail(self, error: ErrorDelta) -> list[Delta]:
        return [*self._tools.close("incomplete"), error]

    # Contents of blocks

    def _start_call(self, block: _Block, call: dict[str, Any]) -> list[Delta]:
        block.kind = "call"
        id, name = text_of(call.get("toolUseId")), text_of(call.get("name"))
        return self._end_text_before([ToolCallDelta(block.key, id, name), *self._arguments(block, call)])

    def _text(self, block: _Block, value: Any) -> list[Delta]:
        text = text_of(value)
        if not text:
            return []
        run = self._join(block)
        run.length += len(text)
        return [TextDelta(text, run.key)]

    def _arguments(self, block: _Block, value: Any) -> list[Delta]:
        """Read arguments: a fragment in a stream, an object in an answer that is not streamed."""
        input = object_of(value).get("input")
        if not input or not isinstance(input, str | dict):
            return []
        if block.kind == "server":
            self._tools.feed(block.key, input if isinstance(input, str) else _json(input))
            return []
        block.kind, block.has_arguments = "call", True
        return self._end_text_before([ToolCallDelta(block.key, arguments=input)])

    def _result(self, block: _Block, value: Any) -> list[Delta]:
        self._tools.feed_result(block.key, objects_of(value))
        return []

    def _reasoning(self, block: _Block, value: Any) -> list[Delta]:
        block.kind = "reasoning"
        content = object_of(value)
        deltas: list[Delta] = []
        if text := text_of(content.get("text")):
            block.thinking.append(text)
            deltas.append(ReasoningDelta(text, block.key))
        if signature := text_of(content.get("signature")):
            block.signatures.append(signature)
        if redacted := text_of(content.get("redactedContent")):
            deltas.append(OpaqueReasoning(seal(self._target, {"redactedContent": redacted}), block.key))
        return self._end_text_before(deltas)

    def _citation(self, block: _Block, value: Any) -> list[Delta]:
        """Store the citation until the end of the block: it applies to the block's whole text (quirk A8)."""
        block.citations += [value] if isinstance(value, dict) else []
        return []


_EVENTS: dict[str, Callable[[BedrockReader, dict[str, Any]], list[Delta]]] = {
    "messageStart": BedrockReader._on_message_start,
    "contentBlockStart": BedrockReader._on_block_start,
    "contentBlockDelta": BedrockReader._on_block_delta,
    "contentBlockStop": BedrockReader._on_block_stop,
    "messageStop": BedrockReader._on_message_stop,
    "metadata": BedrockReader._on_metadata,
    "amazon-bedrock-invocationMetrics": BedrockReader._on_metrics,
}

_PADDING = "p"

_DELTAS: dict[str, Callable[[BedrockReader, _Block, Any], list[Delta]]] = {
    "text": BedrockReader._text,
    "toolUse": BedrockReader._arguments,
    "toolResult": BedrockReader._result,
    "reasoningContent": BedrockReader._reasoning,
    "citation": BedrockReader._citation,
}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _annotation(citation: dict[str, Any], start: int, end: int) -> Annotation:
    """Return a citation of the text from `start` to `end`: of a web page, or of a place in a document."""
    web = object_of(object_of(citation.get("location")).get("web"))
    title = text_of(citation.get("title"))
    if url := text_of(web.get("url")):
        return UrlCitation(url=url, title=title, start_index=start, end_index=end)
    rest = {name: value for name, value in citation.items() if name != "type"}
    return UnknownAnnotation(type="document_citation", extra=rest)
