"""Read Cohere's chat stream, version 2: typed events, with separate indexes for blocks and calls."""

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
"""Finish reasons that are failures, and the error code for each."""


class CohereEvent(Struct):
    """The common fields of events: the index of a block or a call, and the new part of the message."""

    index: int = 0
    id: str = ""
    delta: dict[str, Any] = {}
    message: dict[str, Any] = {}


class CohereReader:
    """Read one answer."""

    def __init__(self) -> None:
        self._text_block: Key = 0
        """The current text block; a citation without an index belongs to it."""
        self._received = self._ended = self._saw_done = False

    @property
    def is_over(self) -> bool:
        return self._saw_done

    def feed(self, frame: Frame) -> list[Delta]:
        self._received = True
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
        if not self._received:
            return [ErrorDelta("upstream_empty", "the upstream's answer is empty")]
        if self._saw_done:
            return [FinishDelta(FinishReason.STOP)]
        return [ErrorDelta("upstream_truncated", "the upstream's answer ended before it was complete")]

    def read_answer(self, answer: dict[str, Any]) -> list[Delta]:
        """Read an answer that is not streamed, as the events of a stream."""
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
        handle = _EVENTS.get(type)
        if handle is not None:
            delta = object_of(event.get("delta"))
            index, id = count_of(event.get("index")) or 0, text_of(event.get("id"))
            return handle(self, CohereEvent(index, id, delta, object_of(delta.get("message"))))
        if event.get("error") or (not type and event.get("message")):
            return [error_delta(event)]
        message = f"an event of type {type[:100]!r} was left out"
        return [DiagnosticDelta("unknown_event", message)] if type else []

    def _start(self, event: CohereEvent) -> list[Delta]:
        return [UpstreamInfo(id=event.id)] if event.id else []

    def _tool_plan(self, event: CohereEvent) -> list[Delta]:
        """Read what the model plans to do with its calls, as reasoning."""
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
        index = count_of(citation.get("content_index"))
        block = self._text_block if index is None else index
        return [_annotation(source, citation, block) for source in objects_of(citation.get("sources"))]

    def _end(self, event: CohereEvent) -> list[Delta]:
        """Read the end. The usage comes first, because a failure ends the answer."""
        deltas = _usage(object_of(event.delta.get("usage")))
        reason = text_of(event.delta.get("finish_reason"))
        if reason in FAILURES:
            message = text_of(event.delta.get("error")) or f"the upstream's answer ended with {reason}"
            type = "server_error" if FAILURES[reason] == "server_error" else "invalid_request"
            return [*deltas, ErrorDelta(FAILURES[reason], message, type=type)]
        if not reason:
            return deltas
        deltas.append(FinishDelta(FINISHES.get(reason, FinishReason.STOP)))
        if reason not in FINISHES:
            deltas.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {reason[:200]}"))
        return deltas

    def _ignore(self, _: CohereEvent) -> list[Delta]:
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
    "citation-end": CohereReader._ignore,
    "message-end": CohereReader._end,
    "debug": CohereReader._ignore,
}


def _usage(usage: dict[str, Any]) -> list[Delta]:
    """Return all tokens rather than the billed ones, which are fewer."""
    counts = object_of(usage.get("tokens")) or object_of(usage.get("billed_units"))
    delta = UsageDelta(
        input_tokens=count_of(counts.get("input_tokens")),
        output_tokens=count_of(counts.get("output_tokens")),
        cached_tokens=count_of(usage.get("cached_tokens")),
        reasoning_tokens=count_of(counts.get("reasoning_tokens")),
    )
    return [delta] if delta != UsageDelta() else []


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
    return DiagnosticDelta("left_out", f"{what} was left out")
