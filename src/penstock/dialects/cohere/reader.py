"""Reads Cohere's chat stream, version 2: typed events, with blocks and calls under separate indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.protocol.content import FileCitation, UrlCitation
from penstock.sse import Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    Key,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)

FINISHES: dict[str, FinishReason] = {
    "COMPLETE": FinishReason.STOP,
    "STOP_SEQUENCE": FinishReason.STOP,
    "TOOL_CALL": FinishReason.TOOL_CALLS,
    "MAX_TOKENS": FinishReason.LENGTH,
    "ERROR_TOXIC": FinishReason.CONTENT_FILTER,
}

FAILURES: dict[str, str] = {
    "ERROR": "server_error",
    "TIMEOUT": "server_error",
    "USER_CANCEL": "server_error",
    "ERROR_LIMIT": "context_length_exceeded",
}
"""Finish reasons that are failures, and our code for each."""


class CohereEvent(Struct):
    """What all events have: an index of a block or of a call, and what is new in the message."""

    index: int = 0
    id: str = ""
    delta: dict[str, Any] = {}
    message: dict[str, Any] = {}


class CohereReader:
    """One answer."""

    def __init__(self) -> None:
        self._text_block: Key = 0
        """Where the text goes, and so a citation that does not say where it belongs."""
        self._fed = self._ended = self._saw_done = False

    @property
    def is_over(self) -> bool:
        return self._saw_done

    def feed(self, frame: Frame) -> list[Delta]:
        self._fed = True
        if frame.data.strip().strip('"') == DONE:
            self._saw_done = True
            return []
        event = read_object(frame)
        deltas: list[Delta] = [event] if isinstance(event, ErrorDelta) else self._event(event)
        self._ended = self._ended or any(isinstance(delta, FinishDelta | ErrorDelta) for delta in deltas)
        return deltas

    def end(self) -> list[Delta]:
        if self._ended:
            return []
        if not self._fed:
            return [ErrorDelta("upstream_empty", "the upstream answered with nothing")]
        if self._saw_done:
            return [FinishDelta(FinishReason.STOP)]
        return [ErrorDelta("upstream_truncated", "the upstream stopped in the middle")]

    def whole(self, answer: dict[str, Any]) -> list[Delta]:
        """An answer that is not streamed, as the events of a stream say it."""
        message = object_of(answer.get("message"))
        deltas = self._start(CohereEvent(id=text_of(answer.get("id"))))
        deltas += self._tool_plan(CohereEvent(message=message))
        citations = objects_of(message.get("citations"))
        for index, content in enumerate(objects_of(message.get("content"))):
            deltas += self._content(CohereEvent(index, message={"content": content}))
            for citation in citations:
                if (count_of(citation.get("content_index")) or 0) == index:
                    deltas += self._citation(CohereEvent(message={"citations": citation}))
            deltas += self._content_end(CohereEvent(index))
        for index, call in enumerate(objects_of(message.get("tool_calls"))):
            deltas += self._tool_call(CohereEvent(index, message={"tool_calls": call}))
            deltas += self._tool_call_end(CohereEvent(index))
        deltas += self._end(CohereEvent(delta=answer))
        if not text_of(answer.get("finish_reason")):
            deltas.append(error_delta(answer))
        return deltas

    def _event(self, event: dict[str, Any]) -> list[Delta]:
        type = text_of(event.get("type"))
        read = _EVENTS.get(type)
        if read is not None:
            delta = object_of(event.get("delta"))
            index, id = count_of(event.get("index")) or 0, text_of(event.get("id"))
            return read(self, CohereEvent(index, id, delta, object_of(delta.get("message"))))
        if event.get("error") or (not type and event.get("message")):
            return [error_delta(event)]
        told = f"an event of the type {type[:100]} was left out"
        return [DiagnosticDelta("unknown_event", told)] if type else []

    def _start(self, event: CohereEvent) -> list[Delta]:
        return [UpstreamInfo(id=event.id)] if event.id else []

    def _tool_plan(self, event: CohereEvent) -> list[Delta]:
        """What the model wants to do with its calls: reasoning in all but name."""
        plan = text_of(event.message.get("tool_plan"))
        return [ReasoningDelta(plan)] if plan else []

    def _content(self, event: CohereEvent) -> list[Delta]:
        content = object_of(event.message.get("content"))
        deltas: list[Delta] = []
        if thinking := text_of(content.get("thinking")):
            deltas.append(ReasoningDelta(thinking, event.index))
        if text := text_of(content.get("text")):
            self._text_block = event.index
            deltas.append(TextDelta(text, event.index))
        return deltas

    def _content_end(self, event: CohereEvent) -> list[Delta]:
        return [BlockEnd(event.index)]

    def _tool_call(self, event: CohereEvent) -> list[Delta]:
        call = object_of(event.message.get("tool_calls"))
        function = object_of(call.get("function"))
        return [
            ToolCallDelta(
                key=event.index,
                id=text_of(call.get("id")),
                name=text_of(function.get("name")),
                arguments=text_of(function.get("arguments")),
            )
        ]

    def _tool_call_end(self, event: CohereEvent) -> list[Delta]:
        return [ToolCallDelta(key=event.index, whole=True)]

    def _citation(self, event: CohereEvent) -> list[Delta]:
        citation = object_of(event.message.get("citations"))
        if text_of(citation.get("type")) not in ("", "TEXT_CONTENT"):
            return [_left_out("a citation in the reasoning")]
        place = count_of(citation.get("content_index"))
        block = self._text_block if place is None else place
        return [_annotation(source, citation, block) for source in objects_of(citation.get("sources"))]

    def _end(self, event: CohereEvent) -> list[Delta]:
        """Usage is told first: a failure ends everything."""
        deltas = _usage(object_of(event.delta.get("usage")))
        reason = text_of(event.delta.get("finish_reason"))
        if reason in FAILURES:
            told = text_of(event.delta.get("error")) or f"the upstream's answer ended with {reason}"
            type = "server_error" if FAILURES[reason] == "server_error" else "invalid_request"
            return [*deltas, ErrorDelta(FAILURES[reason], told, type=type)]
        if not reason:
            return deltas
        deltas.append(FinishDelta(FINISHES.get(reason, FinishReason.STOP)))
        if reason not in FINISHES:
            deltas.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {reason[:200]}"))
        return deltas

    def _nothing(self, _: CohereEvent) -> list[Delta]:
        return []


_EVENTS: dict[str, Callable[[CohereReader, CohereEvent], list[Delta]]] = {
    "message-start": CohereReader._start,
    "tool-plan-delta": CohereReader._tool_plan,
    "content-start": CohereReader._content,
    "content-delta": CohereReader._content,
    "content-end": CohereReader._content_end,
    "tool-call-start": CohereReader._tool_call,
    "tool-call-delta": CohereReader._tool_call,
    "tool-call-end": CohereReader._tool_call_end,
    "citation-start": CohereReader._citation,
    "citation-end": CohereReader._nothing,
    "message-end": CohereReader._end,
    "debug": CohereReader._nothing,
}


def _usage(usage: dict[str, Any]) -> list[Delta]:
    """All tokens, not those that are billed: these are fewer."""
    counts = object_of(usage.get("tokens")) or object_of(usage.get("billed_units"))
    told = UsageDelta(
        input_tokens=count_of(counts.get("input_tokens")),
        output_tokens=count_of(counts.get("output_tokens")),
        cached_tokens=count_of(usage.get("cached_tokens")),
        reasoning_tokens=count_of(counts.get("reasoning_tokens")),
    )
    return [told] if told != UsageDelta() else []


def _annotation(source: dict[str, Any], citation: dict[str, Any], block: Key) -> Delta:
    document = object_of(source.get("document"))
    start, end = count_of(citation.get("start")) or 0, count_of(citation.get("end")) or 0
    url, title = text_of(document.get("url")), text_of(document.get("title"))
    if url:
        return AnnotationDelta(UrlCitation(url=url, title=title, start_index=start, end_index=end), block)
    if document:
        id = text_of(source.get("id")) or text_of(document.get("id"))
        return AnnotationDelta(FileCitation(file_id=id, filename=title, index=end), block)
    return _left_out("a citation of a tool's output")


def _left_out(what: str) -> Delta:
    return DiagnosticDelta("left_out", f"the answer had {what}, which was left out")
