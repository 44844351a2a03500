"""One fault per case, put into a lawful stream, and the rule that it breaks."""

from __future__ import annotations

import json
from typing import Any

from tests.stream import lawful
from tests.stream.checker.broken_streams import (
    ADDED,
    ANNOTATION,
    ARGUMENTS,
    ARGUMENTS_DONE,
    COMPLETED,
    CREATED,
    DELTA,
    DONE,
    END,
    ERROR,
    FAILED,
    FRAMES,
    INCOMPLETE,
    INCOMPLETE_DETAILS,
    LAST,
    LOGPROB,
    LONG,
    PART_ADDED,
    PART_DONE,
    REFUSAL_DONE,
    SUMMARY_ADDED,
    SUMMARY_PART,
    TEXT,
    TEXT_DONE,
    TEXT_PART,
    WORKING,
    Broken,
    Case,
)
from tests.stream.lawful import Event, Stream

L = lawful


def _with_an_unknown_item() -> Stream:
    stream = Stream().work()
    stream.item("search_call", "sc_1").done()
    return stream.complete()


SEARCHING = "response.web_search_call.searching"


def _with_item(type: str, *tools: Event, **fields: Any) -> Stream:
    """A stream with one item of a tool, for a client that declared these tools."""
    stream = Stream(*tools).work()
    stream.item(type, "item_1", call_id="call_1", action={}, arguments={}, **fields).done()
    return stream.complete()


def _with_an_undeclared_custom_call() -> Stream:
    stream = Stream().work()
    stream.custom(name="other").stream_in("x").end_stream().done()
    return stream.complete()


def _open_with_logprobs(broken: Broken) -> None:
    broken.set(PART_ADDED, "part.logprobs", broken.copied(DELTA)["logprobs"]).unset(DELTA, "logprobs")


def _slug_and_share_the_call_id(broken: Broken) -> None:
    _rename(broken, "computer_call", "openai:computer_call")
    broken.each_item("call_id", "call_1", 1).accent = "openresponses"


def _event(type: str, item_id: str, **fields: Any) -> Event:
    return {"type": type, "item_id": item_id, "output_index": 0, **fields}


def _shift(broken: Broken, by: int, start: int = 0) -> None:
    for event in broken.events[start:]:
        event["sequence_number"] += by


def _change_citation(broken: Broken, citation: Event, index: int = 0) -> None:
    """Change the first citation of the message at this index."""
    broken.set(ANNOTATION, "annotation", citation).set(PART_DONE, "part.annotations.0", citation)
    broken.set(DONE, "item.content.0.annotations.0", citation, index)
    broken.set(COMPLETED, f"response.output.{index}.content.0.annotations.0", citation)


def _untitled(broken: Broken) -> None:
    for type, path in (
        (ANNOTATION, "annotation"),
        (PART_DONE, "part.annotations.0"),
        (DONE, "item.content.0.annotations.0"),
        (COMPLETED, "response.output.0.content.0.annotations.0"),
    ):
        broken.unset(type, f"{path}.title")


def _end_item(broken: Broken, status: str) -> None:
    broken.set(DONE, "item.status", status).set(COMPLETED, "response.output.0.status", status)


def _end_first_incomplete(broken: Broken) -> None:
    broken.set(DONE, "item.status", "incomplete").set(INCOMPLETE, "response.output.0.status", "incomplete")


def _again(broken: Broken) -> Event:
    """The item added again at the same index under another id (ask B4)."""
    event = broken.copied(ADDED)
    event["item"]["id"] = "fc_2"
    return event


def _reindex(broken: Broken, places: dict[int, int]) -> None:
    for event in broken.events:
        if "output_index" in event:
            event["output_index"] = places.get(event["output_index"], event["output_index"])


def _repart(broken: Broken, places: dict[int, int]) -> None:
    for event in broken.events:
        if "content_index" in event:
            event["content_index"] = places.get(event["content_index"], event["content_index"])


def _rename(broken: Broken, old: str, new: str) -> None:
    broken.events = json.loads(json.dumps(broken.events).replace(f'"{old}"', f'"{new}"'))


def _retype(broken: Broken) -> None:
    """End a text with the event that ends a refusal."""
    broken.set(TEXT_DONE, "refusal", "Hello world").set(TEXT_DONE, "type", "response.refusal.done")


STREAM_CASES = [
    Case("sequence.number", L.text, lambda b: b.unset(DELTA, "sequence_number"), DELTA),
    Case("sequence.number", L.text, lambda b: b.set(DELTA, "sequence_number", "4"), DELTA),
    Case("sequence.number", L.text, lambda b: b.set(DELTA, "sequence_number", True), DELTA),
    Case("sequence.start", L.text, lambda b: _shift(b, 1), CREATED),
    Case("sequence.step", L.text, lambda b: _shift(b, 1, start=4), DELTA),
    Case("sequence.step", L.text, lambda b: _shift(b, -1, start=4), DELTA),
    Case("lifecycle.created-first", L.text, lambda b: b.drop(CREATED), WORKING, tolerant=False),
    Case("lifecycle.created-first", L.failed_at_once, lambda b: b.drop(CREATED), "error"),
    Case(
        "lifecycle.created-first",
        L.slugged,
        lambda b: b.insert(0, b.events.pop(2)),
        "acme:trace",
        tolerant=False,
    ),
    Case("terminal.missing", L.text, lambda b: b.drop(COMPLETED), END),
    Case("terminal.twice", L.text, lambda b: b.repeat(COMPLETED), COMPLETED, 1),
    Case("terminal.after", L.text, lambda b: b.after(COMPLETED, b.copied(WORKING)), WORKING, 1),
    Case("terminal.error-alone", L.failed, lambda b: b.drop(FAILED), END),
    Case("terminal.error-alone", L.failed, lambda b: b.repeat("error"), "error", 1),
    Case("terminal.error-payload", L.failed, lambda b: b.unset("error", "error"), "error"),
    Case("terminal.error-payload", L.failed, lambda b: b.unset("error", "error.param"), "error"),
    Case("terminal.error-payload", L.failed, lambda b: b.unset("error", "code"), "error"),
    Case("terminal.error-payload", L.failed, lambda b: b.unset("error", "message"), "error"),
    Case("terminal.error-payload", L.failed, lambda b: b.unset("error", "param"), "error"),
    Case("terminal.error-differs", L.failed, lambda b: b.set("error", "code", "timeout"), "error"),
    Case("terminal.error-differs", L.failed, lambda b: b.set("error", "message", "Away."), "error"),
    Case("terminal.error-differs", L.failed, lambda b: b.set("error", "param", "input"), "error"),
    Case("terminal.error-differs", L.failed, lambda b: b.set(FAILED, "response.error.code", "x"), FAILED),
]
ITEM_CASES = [
    Case("item.null", L.text, lambda b: b.set(DONE, "item", None), DONE),
    Case("item.null", L.text, lambda b: b.set(ADDED, "item", None), ADDED),
    Case("item.added-missing", L.text, lambda b: b.drop(ADDED), PART_ADDED),
    Case("item.added-missing", L.function_call, lambda b: b.drop(ADDED), ARGUMENTS),
    Case("item.added-missing", L.slugged, lambda b: b.drop(ADDED), DONE),
    Case("item.added-twice", L.text, lambda b: b.repeat(ADDED), ADDED, 1),
    Case("item.done-missing", L.text, lambda b: b.drop(DONE), COMPLETED),
    Case("item.done-twice", L.text, lambda b: b.repeat(DONE), DONE, 1),
    Case("item.closed", L.text, lambda b: b.after(DONE, b.copied(DELTA)), DELTA, 3),
    Case(
        "item.closed",
        L.hosted,
        lambda b: b.after(DONE, b.copied("response.web_search_call.completed")),
        "response.web_search_call.completed",
        1,
    ),
    Case("item.index-order", L.parallel_tool_calls, lambda b: _reindex(b, {1: 2}), ADDED, 1),
    Case("item.index-order", L.text, lambda b: _reindex(b, {0: 1}), ADDED),
    Case("item.index-changed", L.text, lambda b: b.set(DELTA, "output_index", 1), DELTA),
    Case("item.index-changed", L.text, lambda b: b.set(DONE, "output_index", 1), DONE),
    Case("item.id", L.text, lambda b: b.set(ADDED, "item.id", ""), ADDED),
    Case("item.id", L.text, lambda b: b.unset(ADDED, "item.id"), ADDED),
    Case("item.id-length", L.text, lambda b: _rename(b, "msg_1", LONG), ADDED),
    Case("item.id-reused", L.parallel_tool_calls, lambda b: _rename(b, "fc_2", "fc_1"), ADDED, 1),
    Case("item.id-reused", L.text, lambda b: _rename(b, "msg_1", "resp_1"), ADDED),
    Case("item.id-changed", L.text, lambda b: b.set(DELTA, "item_id", "msg_2"), DELTA),
    Case("item.id-changed", L.text, lambda b: b.set(DONE, "item.id", "msg_2"), DONE),
    Case("item.id-changed", L.text, lambda b: b.set(COMPLETED, "response.output.0.id", "msg_2"), COMPLETED),
    Case(
        "item.id-is-call-id",
        L.function_call,
        lambda b: b.set(ARGUMENTS_DONE, "item_id", "call_1"),
        ARGUMENTS_DONE,
    ),
    Case("item.id-is-call-id", L.function_call, lambda b: b.set(DONE, "item.id", "call_1"), DONE),
    Case("item.changed", L.function_call, lambda b: b.set(DONE, "item.name", "get_time"), DONE),
    Case("item.changed", L.function_call, lambda b: b.set(DONE, "item.call_id", "call_2"), DONE),
    Case("item.changed", L.function_call, lambda b: b.set(DONE, "item.namespace", "weather"), DONE),
    Case("item.changed", L.function_call, lambda b: b.set(ARGUMENTS_DONE, "name", "f"), ARGUMENTS_DONE),
    Case("item.changed", L.function_call, lambda b: b.set(ARGUMENTS_DONE, "name", None), ARGUMENTS_DONE),
    Case("item.changed", L.phases, lambda b: b.set(DONE, "item.phase", "final_answer"), DONE),
    Case("item.changed", L.phases, lambda b: b.unset(DONE, "item.phase"), DONE),
    Case("item.fields", L.text, lambda b: b.unset(ADDED, "item.status"), ADDED),
    Case("item.fields", L.reasoning, lambda b: b.set(DONE, "item.encrypted_content", None), DONE),
    Case("item.fields", L.reasoning, lambda b: b.set(ADDED, "item.content", None), ADDED),
    Case("item.fields", L.reasoning, lambda b: b.unset(ADDED, "item.summary"), ADDED),
    Case("item.fields", L.text, lambda b: b.set(ADDED, "item.phase", None), ADDED),
    Case("item.role", L.text, lambda b: b.each_item("role", "user"), ADDED),
    Case("item.added-status", L.text, lambda b: b.set(ADDED, "item.status", "completed"), ADDED),
    Case("item.done-status", L.text, lambda b: b.set(DONE, "item.status", "done"), DONE),
    Case("item.done-status", L.hosted, lambda b: b.set(DONE, "item.status", "searching"), DONE),
    Case(
        "item.done-status",
        L.slugged,
        lambda b: b.set(DONE, "item.status", "in_progress"),
        DONE,
        tolerant=False,
    ),
    Case(
        "item.prefilled",
        L.function_call,
        lambda b: b.set(ADDED, "item.arguments", '{"city":"Oslo"}'),
        ADDED,
    ),
    Case(
        "item.prefilled",
        L.text,
        lambda b: b.set(ADDED, "item.content", [{"type": "output_text", "text": "H", "annotations": []}]),
        ADDED,
    ),
    Case(
        "item.event-kind",
        L.function_call,
        lambda b: b.insert(3, _event(DELTA, "fc_1", content_index=0, delta="x")),
        DELTA,
    ),
    Case(
        "item.event-kind",
        L.function_call,
        lambda b: b.insert(3, _event(PART_ADDED, "fc_1", content_index=0, part=TEXT_PART)),
        PART_ADDED,
    ),
    Case("item.event-kind", L.text, lambda b: b.insert(3, _event(ARGUMENTS, "msg_1", delta="x")), ARGUMENTS),
    Case(
        "item.event-kind",
        L.text,
        lambda b: b.insert(3, _event(SUMMARY_ADDED, "msg_1", summary_index=0, part=SUMMARY_PART)),
        SUMMARY_ADDED,
    ),
    Case("item.after-incomplete", L.truncated, lambda b: _end_first_incomplete(b), ADDED, 1),
    Case("item.content-differs", L.text, lambda b: b.set(DONE, "item.content.0.text", "Bye"), DONE),
    Case("item.content-differs", L.text, lambda b: b.set(DONE, "item.content", []), DONE),
    Case("item.content-differs", L.reasoning, lambda b: b.set(DONE, "item.summary.1.text", "Bye"), DONE),
    Case("call.id", L.function_call, lambda b: b.each_item("call_id", ""), ADDED),
    Case("call.id", L.computer_calls, lambda b: b.each_item("call_id", None), ADDED),
    Case("call.id-length", L.function_call, lambda b: b.each_item("call_id", LONG), ADDED),
    Case("call.id-is-item-id", L.function_call, lambda b: _rename(b, "fc_1", "call_1"), ADDED),
    Case("call.id-is-item-id", L.unknown, lambda b: _rename(b, "tp_1", "call_1"), ADDED),
    Case("call.duplicate", L.computer_calls, lambda b: b.each_item("call_id", "call_1", 1), ADDED, 1),
    Case("call.duplicate", L.computer_calls, lambda b: _slug_and_share_the_call_id(b), ADDED, 1),
    Case("call.duplicate", L.parallel_tool_calls, lambda b: b.each_item("call_id", "call_1", 1), ADDED, 1),
    Case("call.duplicate", L.function_call, lambda b: b.after(ARGUMENTS, _again(b)), ADDED, 1),
    Case("call.name", L.function_call, lambda b: b.each_item("name", ""), ADDED),
]
CONTENT_CASES = [
    Case("event.fields", L.text, lambda b: b.unset(DELTA, "item_id"), DELTA),
    Case("event.fields", L.text, lambda b: b.set(DELTA, "output_index", "0"), DELTA),
    Case("event.fields", L.text, lambda b: b.set(PART_DONE, "part", None), PART_DONE),
    Case("event.fields", L.text, lambda b: b.unset(PART_ADDED, "part"), PART_ADDED),
    Case("event.fields", L.text, lambda b: b.unset(TEXT_DONE, "text"), TEXT_DONE),
    Case("event.fields", L.text, lambda b: b.unset(DONE, "output_index"), DONE),
    Case("event.fields", L.text, lambda b: b.unset(ADDED, "output_index"), ADDED),
    Case("event.fields", L.text, lambda b: b.unset(DONE, "item"), DONE),
    Case("event.fields", L.text, lambda b: b.unset(COMPLETED, "response"), COMPLETED),
    Case("event.fields", L.function_call, lambda b: b.unset(ARGUMENTS_DONE, "arguments"), ARGUMENTS_DONE),
    Case("event.fields", L.annotated_text, lambda b: b.unset(ANNOTATION, "annotation", 1), ANNOTATION, 1),
    Case("event.logprobs", L.text, lambda b: b.set(DELTA, "logprobs", None), DELTA),
    Case(
        "event.logprobs",
        L.text,
        lambda b: b.set(TEXT_DONE, "logprobs", [{"token": "a", "logprob": 0, "bytes": []}]),
        TEXT_DONE,
    ),
    Case("delta.empty", L.text, lambda b: b.after(DELTA, b.copied(DELTA, delta="")), DELTA, 1),
    Case(
        "delta.empty",
        L.function_call,
        lambda b: b.after(ARGUMENTS, b.copied(ARGUMENTS, delta="")),
        ARGUMENTS,
        1,
    ),
    Case("part.added-missing", L.text, lambda b: b.drop(PART_ADDED), DELTA),
    Case(
        "part.added-missing",
        L.reasoning,
        lambda b: b.drop(SUMMARY_ADDED),
        "response.reasoning_summary_text.delta",
    ),
    Case(
        "part.added-missing",
        L.reasoning,
        lambda b: b.drop(PART_ADDED),
        "response.reasoning.delta",
        tolerant=False,
    ),
    Case("part.added-twice", L.text, lambda b: b.repeat(PART_ADDED), PART_ADDED, 1),
    Case("part.index", L.text, lambda b: _repart(b, {0: 1}), PART_ADDED),
    Case("part.index", L.two_parts, lambda b: _repart(b, {1: 2}), PART_ADDED, 1),
    Case("part.type", L.text, lambda b: _retype(b), REFUSAL_DONE),
    Case("part.type", L.text, lambda b: b.set(PART_DONE, "part.type", "refusal"), PART_DONE),
    Case(
        "part.type", L.reasoning, lambda b: b.set(SUMMARY_ADDED, "part.type", "reasoning_text"), SUMMARY_ADDED
    ),
    Case("part.fields", L.text, lambda b: b.unset(PART_ADDED, "part.annotations"), PART_ADDED),
    Case("part.fields", L.text, lambda b: b.set(PART_DONE, "part.logprobs", None), PART_DONE),
    Case("part.fields", L.annotated_text, lambda b: _untitled(b), ANNOTATION),
    Case("part.prefilled", L.text, lambda b: b.set(PART_ADDED, "part.text", "Hello"), PART_ADDED),
    Case("part.prefilled", L.log_probabilities, lambda b: _open_with_logprobs(b), PART_ADDED),
    Case("part.closed", L.text, lambda b: b.after(TEXT_DONE, b.copied(DELTA)), DELTA, 3),
    Case("part.closed", L.text, lambda b: b.repeat(TEXT_DONE), TEXT_DONE, 1),
    Case("part.closed", L.text, lambda b: b.repeat(PART_DONE), PART_DONE, 1),
    Case("part.closed", L.annotated_text, lambda b: b.after(PART_DONE, b.copied(ANNOTATION)), ANNOTATION, 3),
    Case("part.text-done-missing", L.text, lambda b: b.drop(TEXT_DONE), PART_DONE),
    Case("part.done-missing", L.text, lambda b: b.drop(PART_DONE), DONE),
    Case("part.text-differs", L.text, lambda b: b.set(TEXT_DONE, "text", "Bye"), TEXT_DONE),
    Case("part.text-differs", L.text, lambda b: b.drop(DELTA, 1), TEXT_DONE),
    Case("part.text-differs", L.text, lambda b: b.repeat(DELTA, 1), TEXT_DONE),
    Case("part.text-differs", L.refusal, lambda b: b.drop("response.refusal.delta"), "response.refusal.done"),
    Case("part.done-differs", L.text, lambda b: b.set(PART_DONE, "part.text", "Bye"), PART_DONE),
    Case("part.logprobs", L.log_probabilities, lambda b: b.set(TEXT_DONE, "logprobs", []), TEXT_DONE),
    Case("part.logprobs", L.log_probabilities, lambda b: b.unset(TEXT_DONE, "logprobs"), TEXT_DONE),
    Case("part.logprobs", L.text, lambda b: b.set(DELTA, "logprobs", [LOGPROB]), TEXT_DONE),
    Case("part.logprobs", L.log_probabilities, lambda b: b.set(PART_DONE, "part.logprobs", []), PART_DONE),
    Case("part.logprobs", L.text, lambda b: b.set(TEXT_DONE, "logprobs", [LOGPROB]), TEXT_DONE),
    Case(
        "annotation.index",
        L.annotated_text,
        lambda b: b.set(ANNOTATION, "annotation_index", 3, 2),
        ANNOTATION,
        2,
    ),
    Case(
        "annotation.differs", L.annotated_text, lambda b: b.set(PART_DONE, "part.annotations", []), PART_DONE
    ),
    Case("arguments.no-delta", L.function_call, lambda b: b.drop(ARGUMENTS).drop(ARGUMENTS), ARGUMENTS_DONE),
    Case("arguments.closed", L.function_call, lambda b: b.repeat(ARGUMENTS_DONE), ARGUMENTS_DONE, 1),
    Case(
        "arguments.closed",
        L.function_call,
        lambda b: b.after(ARGUMENTS_DONE, b.copied(ARGUMENTS)),
        ARGUMENTS,
        2,
    ),
    Case("arguments.done-missing", L.function_call, lambda b: b.drop(ARGUMENTS_DONE), DONE),
    Case(
        "arguments.differs",
        L.function_call,
        lambda b: b.set(ARGUMENTS_DONE, "arguments", "{}"),
        ARGUMENTS_DONE,
    ),
    Case("arguments.differs", L.function_call, lambda b: b.drop(ARGUMENTS), ARGUMENTS_DONE),
    Case(
        "arguments.differs", L.truncated, lambda b: b.set(ARGUMENTS_DONE, "arguments", "{}"), ARGUMENTS_DONE
    ),
    Case(
        "arguments.differs",
        L.custom_tool,
        lambda b: b.set("response.custom_tool_call_input.done", "input", "x"),
        "response.custom_tool_call_input.done",
    ),
    Case("arguments.item-differs", L.function_call, lambda b: b.set(DONE, "item.arguments", "{}"), DONE),
    Case("arguments.item-differs", L.custom_tool, lambda b: b.set(DONE, "item.input", "x"), DONE),
    Case("arguments.json", L.truncated, lambda b: b.set(DONE, "item.status", "completed", 1), DONE, 1),
]
SNAPSHOT_CASES = [
    Case("lifecycle.created-once", L.text, lambda b: b.repeat(CREATED), CREATED, 1),
    Case("lifecycle.started", L.text, lambda b: b.drop(WORKING), ADDED),
    Case("lifecycle.started", L.queued, lambda b: b.drop(WORKING), ADDED),
    Case("lifecycle.queued-late", L.queued, lambda b: b.move(WORKING, "response.queued"), "response.queued"),
    Case(
        "lifecycle.queued-late",
        L.queued,
        lambda b: b.set(CREATED, "response.status", "in_progress"),
        "response.queued",
    ),
    Case("lifecycle.response-id", L.text, lambda b: b.set(COMPLETED, "response.id", "resp_2"), COMPLETED),
    Case("lifecycle.response-id", L.text, lambda b: b.set(CREATED, "response.id", ""), CREATED),
    Case("lifecycle.response-id-length", L.text, lambda b: b.each_snapshot("id", LONG), CREATED),
    Case("lifecycle.status", L.text, lambda b: b.set(COMPLETED, "response.status", "failed"), COMPLETED),
    Case("lifecycle.status", L.text, lambda b: b.set(CREATED, "response.status", "completed"), CREATED),
    Case(
        "lifecycle.status",
        L.queued,
        lambda b: b.set("response.queued", "response.status", "waiting"),
        "response.queued",
    ),
    Case("lifecycle.created-at", L.text, lambda b: b.set(COMPLETED, "response.created_at", 1), COMPLETED),
    Case("lifecycle.model", L.text, lambda b: b.each_snapshot("model", ""), CREATED),
    Case("terminal.failed-error", L.failed, lambda b: b.set(FAILED, "response.error", None), FAILED),
    Case("terminal.failed-error", L.failed, lambda b: b.set(FAILED, "response.error.code", None), FAILED),
    Case(
        "terminal.incomplete-reason",
        L.truncated,
        lambda b: b.set(INCOMPLETE, "response.incomplete_details", None),
        INCOMPLETE,
    ),
    Case(
        "terminal.completed-at", L.text, lambda b: b.set(COMPLETED, "response.completed_at", None), COMPLETED
    ),
    Case("terminal.completed-at", L.text, lambda b: b.set(WORKING, "response.completed_at", 5), WORKING),
    Case("terminal.completed-at", L.text, lambda b: b.set(COMPLETED, "response.completed_at", 5), COMPLETED),
    Case("terminal.output", L.text, lambda b: b.set(COMPLETED, "response.output", []), COMPLETED),
    Case(
        "terminal.output",
        L.parallel_tool_calls,
        lambda b: b.events[-1]["response"]["output"].reverse(),
        COMPLETED,
    ),
    Case(
        "terminal.output-differs",
        L.text,
        lambda b: b.set(COMPLETED, "response.output.0.content.0.text", "Bye"),
        COMPLETED,
    ),
    Case(
        "terminal.output-differs",
        L.function_call,
        lambda b: b.set(COMPLETED, "response.output.0.arguments", "{}"),
        COMPLETED,
    ),
    Case(
        "terminal.output-differs",
        L.reasoning,
        lambda b: b.set(COMPLETED, "response.output.0.encrypted_content", "x"),
        COMPLETED,
        tolerant=False,
    ),
    Case("terminal.output-differs", L.text, lambda b: b.set(COMPLETED, "response.output.0", None), COMPLETED),
    Case(
        "terminal.output-differs",
        L.slugged,
        lambda b: b.set(COMPLETED, "response.output.0.cached", 1),
        COMPLETED,
        tolerant=False,
    ),
    Case(
        "terminal.output-differs",
        L.slugged,
        lambda b: b.set(COMPLETED, "response.output.0.hits", [False, 1]),
        COMPLETED,
        tolerant=False,
    ),
    Case("terminal.incomplete-item", L.text, lambda b: _end_item(b, "incomplete"), COMPLETED),
    Case("usage.shape", L.text, lambda b: b.unset(COMPLETED, "response.usage.total_tokens"), COMPLETED),
    Case(
        "usage.shape",
        L.text,
        lambda b: b.unset(COMPLETED, "response.usage.input_tokens_details"),
        COMPLETED,
        tolerant=False,
    ),
    Case(
        "usage.shape",
        L.text,
        lambda b: b.set(COMPLETED, "response.usage.output_tokens_details", {}),
        COMPLETED,
    ),
    Case("usage.shape", L.text, lambda b: b.set(COMPLETED, "response.usage.input_tokens", -12), COMPLETED),
    Case("usage.sum", L.text, lambda b: b.set(COMPLETED, "response.usage.total_tokens", 21), COMPLETED),
    Case(
        "usage.sum",
        L.text,
        lambda b: b.set(COMPLETED, "response.usage.input_tokens_details.cached_tokens", 13),
        COMPLETED,
    ),
    Case(
        "usage.sum",
        L.text,
        lambda b: b.set(COMPLETED, "response.usage.output_tokens_details.reasoning_tokens", 9),
        COMPLETED,
    ),
    Case("snapshot.missing", L.text, lambda b: b.unset(CREATED, "response.metadata"), CREATED),
    Case(
        "snapshot.missing", L.text, lambda b: b.unset(COMPLETED, "response.output"), COMPLETED, tolerant=True
    ),
    Case("snapshot.missing", L.text, lambda b: b.unset(CREATED, "response.tools.0.strict"), CREATED),
    Case("snapshot.type", L.text, lambda b: b.set(CREATED, "response.service_tier", None), CREATED),
    Case("snapshot.type", L.text, lambda b: b.set(CREATED, "response.created_at", 1.5), CREATED),
    Case("snapshot.type", L.text, lambda b: b.set(CREATED, "response.truncation", "maybe"), CREATED),
    Case("snapshot.outcome", L.text, lambda b: b.set(COMPLETED, "response.error", ERROR), COMPLETED),
    Case(
        "snapshot.outcome",
        L.text,
        lambda b: b.set(COMPLETED, "response.incomplete_details", INCOMPLETE_DETAILS),
        COMPLETED,
    ),
    Case("snapshot.outcome", L.truncated, lambda b: b.set(INCOMPLETE, "response.error", ERROR), INCOMPLETE),
    Case("snapshot.outcome", L.text, lambda b: b.set(CREATED, "response.error", ERROR), CREATED),
    Case(
        "snapshot.outcome",
        L.failed,
        lambda b: b.set(WORKING, "response.incomplete_details", INCOMPLETE_DETAILS),
        WORKING,
    ),
    Case(
        "snapshot.output",
        L.log_probabilities,
        lambda b: b.set(WORKING, "response.output.0.content.0.logprobs", [], 1),
        WORKING,
        1,
    ),
    Case("snapshot.output", L.heartbeats, lambda b: b.set(WORKING, "response.output", [], 2), WORKING, 2),
    Case(
        "snapshot.output",
        L.heartbeats,
        lambda b: b.set(WORKING, "response.output.0.summary.0.text", "", 2),
        WORKING,
        2,
    ),
    Case(
        "snapshot.output",
        L.heartbeats,
        lambda b: b.set(WORKING, "response.output.1.id", "msg_2", 3),
        WORKING,
        3,
    ),
    Case(
        "snapshot.output",
        L.heartbeats,
        lambda b: b.set(WORKING, "response.output.1.content", None, 3),
        WORKING,
        3,
    ),
    Case(
        "snapshot.output",
        L.heartbeats,
        lambda b: b.set(WORKING, "response.output.2.arguments", "", 3),
        WORKING,
        3,
    ),
    Case(
        "snapshot.output",
        L.heartbeats,
        lambda b: b.set(WORKING, "response.output.2.status", "incomplete", 4),
        WORKING,
        4,
    ),
    Case("snapshot.output", L.text, lambda b: b.set(CREATED, "response.output", [{}]), CREATED),
]
NAME_CASES = [
    Case("name.event", L.text, lambda b: b.insert(2, {"type": "keepalive"}), "keepalive"),
    Case(
        "name.event",
        L.text,
        lambda b: b.insert(2, {"type": "response.reasoning_part.added"}),
        "response.reasoning_part.added",
    ),
    Case("name.item", _with_an_unknown_item, lambda b: b, ADDED),
    Case(
        "name.accent",
        lambda: L.reasoning("openai"),
        lambda b: setattr(b, "accent", "openresponses"),
        "response.reasoning_text.delta",
        tolerant=False,
    ),
    Case("name.accent", L.reasoning, lambda b: setattr(b, "accent", "copilot"), PART_ADDED),
    Case(
        "name.annotation",
        L.annotated_text,
        lambda b: _change_citation(b, {"type": "file_citation", "file_id": "f_1"}),
        ANNOTATION,
    ),
    Case(
        "name.annotation",
        L.hosted,
        lambda b: _change_citation(b, {"type": "char_location"}, 2),
        ANNOTATION,
    ),
    Case(
        "name.item",
        lambda: _with_item("tool_search_call", {"type": "tool_search"}, execution="server"),
        lambda b: b,
        ADDED,
    ),
    Case("name.undeclared", lambda: _with_item("openai:web_search_call"), lambda b: b, ADDED),
    Case("name.undeclared", lambda: _with_item("local_shell_call", {"type": "shell"}), lambda b: b, ADDED),
    Case(
        "name.undeclared",
        _with_an_undeclared_custom_call,
        lambda b: b,
        ADDED,
    ),
    Case("name.hosted-event", L.hosted, lambda b: setattr(b, "accent", "copilot"), SEARCHING),
    Case(
        "name.hosted-event",
        L.text,
        lambda b: b.insert(3, {"type": f"openai:{SEARCHING}"}),
        f"openai:{SEARCHING}",
    ),
]
FRAME_CASES: list[tuple[str, list[tuple[str | None, str]], int]] = [
    ("transport.json", [*FRAMES[:4], ("acme:trace", '{"type":"acme:trace"'), *FRAMES[4:]], 4),
    ("transport.json", [*FRAMES[:4], (None, '["no object"]'), *FRAMES[4:]], 4),
    ("transport.json", [*FRAMES[:4], (None, "null"), *FRAMES[4:]], 4),
    ("transport.json", [*FRAMES[:4], (None, ""), *FRAMES[4:]], 4),
    ("transport.json", [*FRAMES[:4], (FRAMES[4][0], f"{FRAMES[4][1]}\n{FRAMES[5][1]}"), *FRAMES[6:]], 4),
    ("transport.one-line", [*FRAMES[:4], (FRAMES[4][0], json.dumps(TEXT[4], indent=1)), *FRAMES[5:]], 4),
    ("transport.event-name", [*FRAMES[:4], ("message", FRAMES[4][1]), *FRAMES[5:]], 4),
    ("transport.event-name-missing", [(None, data) for _, data in FRAMES], 0),
    ("transport.done-missing", FRAMES[:-1], LAST),
    ("transport.done-twice", [*FRAMES, FRAMES[-1]], LAST),
    ("transport.after-done", [*FRAMES[:-2], FRAMES[-1], FRAMES[-2]], LAST - 1),
    ("transport.after-done", [*FRAMES, FRAMES[1]], LAST),
]

ALL_CASES = [*STREAM_CASES, *ITEM_CASES, *CONTENT_CASES, *SNAPSHOT_CASES, *NAME_CASES]
