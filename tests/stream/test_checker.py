"""The checker finds nothing in a lawful stream, and in a broken one the rule that is broken, and where."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation, as_markdown
from penstock.stream.checker.shapes import ITEM, PART, RESOURCE, Shape, faults
from penstock.stream.checker.state import Text, same
from tests.effort import examples
from tests.stream import lawful
from tests.stream.lawful import STREAMS, Event, Stream, renumber

ROOT = Path(__file__).parents[2]
SPEC = ROOT.parent / "shared" / "spec" / "openapi-2026-04-24.json"

CREATED, WORKING, COMPLETED = "response.created", "response.in_progress", "response.completed"
FAILED, INCOMPLETE = "response.failed", "response.incomplete"
ADDED, DONE = "response.output_item.added", "response.output_item.done"
PART_ADDED, PART_DONE = "response.content_part.added", "response.content_part.done"
SUMMARY_ADDED = "response.reasoning_summary_part.added"
DELTA, TEXT_DONE = "response.output_text.delta", "response.output_text.done"
REFUSAL_DONE = "response.refusal.done"
ARGUMENTS, ARGUMENTS_DONE = "response.function_call_arguments.delta", "response.function_call_arguments.done"
ANNOTATION = "response.output_text.annotation.added"
END = "end"

Found = list[tuple[str, int]]


def judge(events: list[Event], **options: Any) -> Found:
    """What a checker says of these events: rule and position."""
    checker = StreamChecker(**options)
    found: list[Violation] = []
    for event in events:
        found += checker.feed(event)
    found += checker.end()
    assert checker.lawful == (not found)
    assert checker.events == len(events)
    return [(violation.rule, violation.sequence) for violation in found]


def judge_frames(frames: Sequence[tuple[str | None, str]], **options: Any) -> Found:
    checker = StreamChecker(**options)
    found: list[Violation] = []
    for name, data in frames:
        found += checker.feed_frame(name, data)
    found += checker.end()
    return [(violation.rule, violation.sequence) for violation in found]


# --- lawful streams


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("tolerant", [False, True])
def test_a_lawful_stream_breaks_no_rule(name: str, tolerant: bool) -> None:
    stream = STREAMS[name]()
    assert judge(stream.events, accent=stream.accent, tolerant=tolerant) == []


@pytest.mark.parametrize("name", STREAMS)
def test_a_lawful_stream_in_frames_breaks_no_rule(name: str) -> None:
    stream = STREAMS[name]()
    assert judge_frames(lawful.frames(stream.events), accent=stream.accent) == []


def test_the_first_table_of_seed_000_parallel_tool_calls_is_lawful() -> None:
    stream = lawful.parallel_tool_calls()
    told = [(event["type"], event.get("item_id", "")) for event in stream.events[2:8]]
    assert told == [
        (ADDED, ""),
        (ADDED, ""),
        (ARGUMENTS, "fc_1"),
        (ARGUMENTS, "fc_2"),
        (ARGUMENTS_DONE, "fc_1"),
        (ARGUMENTS_DONE, "fc_2"),
    ]
    assert judge(stream.events) == []


def test_the_second_table_of_seed_000_text_and_tool_call_interleaved_is_lawful() -> None:
    stream = lawful.text_and_tool_call_interleaved()
    told = [event["type"] for event in stream.events[2:]]
    assert told == [
        ADDED,
        PART_ADDED,
        DELTA,
        ADDED,
        DELTA,
        ARGUMENTS,
        TEXT_DONE,
        PART_DONE,
        ARGUMENTS_DONE,
        DONE,
        DONE,
        COMPLETED,
    ]
    assert judge(stream.events) == []


@pytest.mark.parametrize("name", [name for name in STREAMS if not name.startswith("failed")])
def test_a_lawful_stream_on_a_websocket_has_no_done_mark(name: str) -> None:
    stream = STREAMS[name]()
    frames: list[tuple[str | None, str]] = [(None, json.dumps(event)) for event in stream.events]
    assert judge_frames(frames, accent=stream.accent, transport="websocket") == []


def test_a_failure_on_a_websocket_is_response_failed_alone() -> None:
    stream = Stream().work()
    stream.message().whole("output_text", "Half").done("incomplete")
    assert judge(stream.fail().events, transport="websocket") == []


ENVELOPE: Event = {
    "type": "error",
    "status": 400,
    "error": {"code": "previous_response_not_found", "message": "No such response."},
}


def test_an_error_envelope_on_a_websocket_is_a_whole_turn() -> None:
    assert judge([ENVELOPE], transport="websocket") == []


@pytest.mark.parametrize("done", [False, True])
def test_the_done_mark_is_optional_on_ndjson(done: bool) -> None:
    frames = [(None, data) for _, data in lawful.frames(lawful.text().events, done=done)]
    assert judge_frames(frames, transport="ndjson") == []


def test_the_done_mark_is_not_missed_when_only_events_are_told() -> None:
    assert judge(lawful.text().events, transport="sse") == []


@pytest.mark.parametrize("accent", ["openai", "copilot"])
def test_clients_that_know_openai_may_get_the_schema_of_a_format(accent: str) -> None:
    events = lawful.nothing().events
    for event in events:
        event["response"]["text"] = {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "description": None,
                "schema": {"type": "object"},
                "strict": True,
            }
        }
    assert judge(events, accent=accent) == []
    assert judge(events) == [("snapshot.type", 0)]


def test_tools_that_the_client_declared_are_echoed_as_they_came() -> None:
    events = lawful.nothing().events
    for event in events:
        event["response"]["tools"] = [{"type": "custom", "name": "apply_patch"}, {"type": "shell"}]
        event["response"]["tool_choice"] = {"type": "custom", "name": "apply_patch"}
    assert judge(events) == []


def test_a_delta_that_only_has_log_probabilities_is_not_empty() -> None:
    broken = Broken(lawful.text()).set(DELTA, "delta", "").set(TEXT_DONE, "text", "lo world")
    for type, path in (
        (PART_DONE, "part"),
        (DONE, "item.content.0"),
        (COMPLETED, "response.output.0.content.0"),
    ):
        broken.set(type, f"{path}.text", "lo world")
    assert judge(broken.events) == [("delta.empty", 4)]
    logprobs = [{"token": "", "logprob": -0.1, "bytes": [], "top_logprobs": []}]
    for type, path in (
        (DELTA, "logprobs"),
        (TEXT_DONE, "logprobs"),
        (PART_DONE, "part.logprobs"),
        (DONE, "item.content.0.logprobs"),
        (COMPLETED, "response.output.0.content.0.logprobs"),
    ):
        broken.set(type, path, logprobs)
    assert judge(broken.events) == []


@pytest.mark.parametrize("accent", ["openai", "copilot"])
@pytest.mark.parametrize("name", ["ping", "keepalive", "response.rate_limits.updated", "anything"])
def test_clients_of_openai_s_wire_may_get_events_of_any_type(accent: str, name: str) -> None:
    events = Broken(lawful.text()).insert(4, {"type": name}).events
    assert judge(events, accent=accent) == []
    assert judge(events) == [("name.event", 4)]


@pytest.mark.parametrize("accent", ["openai", "copilot"])
def test_an_item_of_any_type_keeps_the_rules_of_items(accent: str) -> None:
    stream = lawful.unknown(accent)
    cases: list[tuple[str, Callable[[Broken], object], str, int]] = [
        ("item.id", lambda b: b.set(ADDED, "item.id", ""), ADDED, 0),
        ("item.fields", lambda b: b.unset(ADDED, "item.status"), ADDED, 0),
        ("item.added-twice", lambda b: b.repeat(ADDED), ADDED, 1),
        ("item.done-twice", lambda b: b.repeat(DONE), DONE, 1),
        ("item.done-missing", lambda b: b.drop(DONE), COMPLETED, 0),
        ("item.done-status", lambda b: b.set(DONE, "item.status", "in_progress"), DONE, 0),
    ]
    for rule, change, at, nth in cases:
        broken = Broken(stream)
        change(broken)
        assert judge(broken.events, accent=accent) == [(rule, broken.find(at, nth))]


def test_flat_copies_in_an_error_are_asked_for_on_sse_alone() -> None:
    events = Broken(lawful.failed()).unset("error", "code").events
    assert judge(events, transport="ndjson") == []
    assert judge(events) == [("terminal.error-payload", len(events) - 2)]


def test_a_failed_response_may_say_why_it_is_incomplete() -> None:
    events = Broken(lawful.failed()).set(FAILED, "response.incomplete_details", INCOMPLETE_DETAILS).events
    assert judge(events) == []


def test_an_error_that_is_told_in_two_ways_is_found_once() -> None:
    broken = Broken(lawful.failed()).set("error", "error.code", "timeout")
    assert judge(broken.events) == [("terminal.error-differs", broken.find("error"))]


# --- broken streams


class Broken:
    """A lawful stream and what was done to it."""

    def __init__(self, stream: Stream) -> None:
        self.events = copy.deepcopy(stream.events)
        self.accent = stream.accent

    def find(self, type: str, nth: int = 0) -> int:
        return [number for number, event in enumerate(self.events) if event["type"] == type][nth]

    def set(self, type: str, path: str, value: Any, nth: int = 0) -> Broken:
        holder, key = self._reach(type, path, nth)
        holder[key] = value
        return self

    def unset(self, type: str, path: str, nth: int = 0) -> Broken:
        holder, key = self._reach(type, path, nth)
        del holder[key]
        return self

    def _reach(self, type: str, path: str, nth: int) -> tuple[Any, Any]:
        value: Any = self.events[self.find(type, nth)]
        steps = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in steps[:-1]:
            value = value[step]
        return value, steps[-1]

    def each_item(self, path: str, value: Any, nth: int = 0) -> Broken:
        """Change an item wherever it is told whole."""
        self.set(ADDED, f"item.{path}", value, nth).set(DONE, f"item.{path}", value, nth)
        return self.set(COMPLETED, f"response.output.{nth}.{path}", value)

    def each_snapshot(self, path: str, value: Any) -> Broken:
        for event in self.events:
            if "response" in event:
                event["response"][path] = copy.deepcopy(value)
        return self

    def drop(self, type: str, nth: int = 0) -> Broken:
        del self.events[self.find(type, nth)]
        return self.numbered()

    def repeat(self, type: str, nth: int = 0) -> Broken:
        place = self.find(type, nth)
        self.events.insert(place, copy.deepcopy(self.events[place]))
        return self.numbered()

    def insert(self, place: int, event: Event) -> Broken:
        self.events.insert(place, copy.deepcopy(event))
        return self.numbered()

    def after(self, type: str, event: Event, nth: int = 0) -> Broken:
        return self.insert(self.find(type, nth) + 1, event)

    def move(self, type: str, before: str, nth: int = 0) -> Broken:
        event = self.events.pop(self.find(type, nth))
        return self.insert(self.find(before), event)

    def copied(self, type: str, nth: int = 0, **changes: Any) -> Event:
        return copy.deepcopy(self.events[self.find(type, nth)]) | changes

    def numbered(self) -> Broken:
        self.events = renumber(self.events)
        return self


@dataclass
class Case:
    """One fault, and where it must be found: at the nth event of a type, or at the end."""

    rule: str
    stream: Callable[[], Stream]
    change: Callable[[Broken], object]
    at: str
    nth: int = 0
    tolerant: bool | None = None
    """Is it found in tolerant mode? None: as the rule says."""

    @property
    def id(self) -> str:
        return f"{self.rule} at {self.at}"


def _with_an_unknown_item() -> Stream:
    stream = Stream().work()
    stream.item("search_call", "sc_1").done()
    return stream.complete()


L = lawful
LONG = "x" * 65
INCOMPLETE_DETAILS: Event = {"reason": "max_output_tokens"}
ERROR: Event = {"code": "server_error", "message": "Gone."}

CASES = [
    # sequence
    Case("sequence.number", L.text, lambda b: b.unset(DELTA, "sequence_number"), DELTA),
    Case("sequence.number", L.text, lambda b: b.set(DELTA, "sequence_number", "4"), DELTA),
    Case("sequence.number", L.text, lambda b: b.set(DELTA, "sequence_number", True), DELTA),
    Case("sequence.start", L.text, lambda b: _shift(b, 1), CREATED),
    Case("sequence.step", L.text, lambda b: _shift(b, 1, start=4), DELTA),
    Case("sequence.step", L.text, lambda b: _shift(b, -1, start=4), DELTA),
    # events
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
    # names
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
    Case("name.annotation", L.annotated_text, lambda b: _cite_a_file(b), ANNOTATION),
    # lifecycle
    Case("lifecycle.created-first", L.text, lambda b: b.drop(CREATED), WORKING, tolerant=False),
    Case("lifecycle.created-first", L.failed_at_once, lambda b: b.drop(CREATED), "error"),
    Case(
        "lifecycle.created-first",
        L.slugged,
        lambda b: b.insert(0, b.events.pop(2)),
        "acme:trace",
        tolerant=False,
    ),
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
    # terminal
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
    # usage
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
    # item
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
    # call
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
    # part
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
    # annotation
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
    # arguments
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
    # snapshot
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

LOGPROB: Event = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}
TEXT_PART: Event = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
SUMMARY_PART: Event = {"type": "summary_text", "text": ""}


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


def _cite_a_file(broken: Broken) -> None:
    citation = {"type": "file_citation", "file_id": "f_1"}
    broken.set(ANNOTATION, "annotation", citation).set(PART_DONE, "part.annotations.0", citation)
    broken.set(DONE, "item.content.0.annotations.0", citation)
    broken.set(COMPLETED, "response.output.0.content.0.annotations.0", citation)


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
    """The item added again in its place, under another id: ask B4 with the index kept."""
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
    """The end of a refusal told for a text."""
    broken.set(TEXT_DONE, "refusal", "Hello world").set(TEXT_DONE, "type", "response.refusal.done")


def _break(case: Case) -> tuple[Broken, int]:
    broken = Broken(case.stream())
    case.change(broken)
    if case.at == END:
        return broken, len(broken.events)
    return broken, broken.find(case.at, case.nth)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_fault_is_found_once_under_its_rule_where_it_shows(case: Case) -> None:
    broken, position = _break(case)
    assert judge(broken.events, accent=broken.accent) == [(case.rule, position)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_tolerant_mode_forgives_what_its_rules_say_and_nothing_else(case: Case) -> None:
    broken, _ = _break(case)
    found = judge(broken.events, accent=broken.accent, tolerant=True)
    expected = RULES[case.rule].tolerant if case.tolerant is None else case.tolerant
    assert bool(found) == expected, found
    assert all(RULES[rule].tolerant for rule, _ in found)


# --- faults of the transport

TEXT = lawful.text().events
FRAMES = lawful.frames(TEXT)
LAST = len(TEXT)
PING = (None, '{"type":"ping","cost":"0"}')

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


@pytest.mark.parametrize(("rule", "frames", "position"), FRAME_CASES)
def test_a_fault_of_the_frames_is_found(
    rule: str, frames: list[tuple[str | None, str]], position: int
) -> None:
    found = judge_frames(frames)
    numbers = ("sequence.step", LAST)  # the event that was told once more has its old number
    assert [fault for fault in found if fault != numbers] == [(rule, position)]
    forgiven = not RULES[rule].tolerant
    assert (judge_frames(frames, tolerant=True) == []) == forgiven


def test_a_frame_may_end_before_the_done_mark_without_hiding_that_the_end_is_missing() -> None:
    assert judge_frames([*FRAMES[:-2], FRAMES[-1]]) == [("terminal.missing", LAST - 1)]


def test_the_done_mark_is_forbidden_on_a_websocket() -> None:
    frames = [(None, data) for _, data in FRAMES]
    assert judge_frames(frames, transport="websocket") == [("transport.done-forbidden", LAST)]


@pytest.mark.parametrize("frame", [PING, ("ping", PING[1]), ("keepalive", '{"type":"keepalive"}')])
def test_pings_are_ignored_anywhere_in_tolerant_mode(frame: tuple[str | None, str]) -> None:
    noisy = [other for each in FRAMES for other in (frame, each)]
    assert judge_frames([*noisy, frame], tolerant=True) == []


WEBSOCKET_CASES = [
    ([{**ENVELOPE, "status": "400"}], ("transport.error-envelope", 0)),
    ([{**ENVELOPE, "error": {"code": None, "message": "x"}}], ("transport.error-envelope", 0)),
    ([{**ENVELOPE, "error": "x"}], ("transport.error-envelope", 0)),
    ([*TEXT[:2], ENVELOPE], ("transport.error-envelope", 2)),
    ([ENVELOPE, *Stream().fail().events], ("terminal.after", 1)),
    ([ENVELOPE, ENVELOPE], ("terminal.after", 1)),
]


@pytest.mark.parametrize(("events", "fault"), WEBSOCKET_CASES)
def test_an_error_envelope_stands_alone(events: list[Event], fault: tuple[str, int]) -> None:
    found = judge(events, transport="websocket")
    assert found[0] == fault
    assert {rule for rule, _ in found} <= {fault[0], "terminal.twice"}


@pytest.mark.parametrize("event", [{}, {"type": None}, {"type": ""}, {"type": ["x"]}, {"sequence_number": 2}])
def test_an_event_without_a_type_is_found(event: Event) -> None:
    assert judge([*TEXT[:2], event, *TEXT[2:]]) == [("event.type", 2)]


def test_what_is_no_object_at_all_is_found() -> None:
    checker = StreamChecker()
    value: Any = ["response.created"]
    assert [violation.rule for violation in checker.feed(value)] == ["event.type"]


def test_every_rule_is_broken_by_some_case() -> None:
    broken = {case.rule for case in CASES} | {rule for rule, *_ in FRAME_CASES}
    broken |= {"transport.done-forbidden", "transport.error-envelope", "event.type"}  # the tests above
    assert broken == set(RULES)


# --- one fault, one finding


def test_a_rotating_id_is_told_once_per_item() -> None:
    """Quirk R2: every event calls the item by another name."""
    broken = Broken(lawful.text())
    for number, event in enumerate(broken.events):
        if "item_id" in event:
            event["item_id"] = f"msg_{number + 100}"
    assert judge(broken.events) == [("item.id-changed", 3)]


def test_the_two_findings_of_seed_002_have_their_own_names() -> None:
    stream = Stream().work()
    stream.call("fc_a", "call_1").stream_in("{}").end_stream().done()
    stream.call("fc_b", "call_1").stream_in("{}").end_stream().done()
    checker = StreamChecker()
    found = [violation for event in stream.complete().events for violation in checker.feed(event)]
    assert [(violation.rule, violation.sequence) for violation in found] == [("call.duplicate", 6)]
    assert "'fc_a'" in found[0].message
    assert "'fc_b'" in found[0].message
    broken = Broken(lawful.function_call())
    broken.set(ARGUMENTS_DONE, "item_id", "call_1").set(DONE, "item.id", "call_1")
    assert judge(broken.events) == [("item.id-is-call-id", broken.find(ARGUMENTS_DONE))]


def test_a_stream_without_any_number_is_told_once() -> None:
    events = [{key: event[key] for key in event if key != "sequence_number"} for event in TEXT]
    assert judge(events) == [("sequence.number", 0)]
    assert judge(events, tolerant=True) == []


def test_a_field_that_every_snapshot_lacks_is_told_once() -> None:
    events = lawful.heartbeats().events
    for event in events:
        if "response" in event:
            del event["response"]["store"]
    assert judge(events) == [("snapshot.missing", 0)]


def test_after_the_end_nothing_is_judged_twice() -> None:
    late = renumber([*TEXT, *TEXT])
    assert judge(late) == [("terminal.after", LAST), ("terminal.twice", 2 * LAST - 1)]


def test_the_end_is_judged_once() -> None:
    checker = StreamChecker()
    assert [violation.rule for violation in checker.end()] == ["terminal.missing"]
    assert checker.end() == []
    assert not checker.lawful


def test_an_item_added_whole_without_deltas_is_forgiven_in_tolerant_mode() -> None:
    stream = Stream().work()
    call = stream.item("function_call", "fc_1", call_id="call_1", name="f", arguments='{"a":1}')
    call.end_stream().done()
    assert judge(stream.complete().events, tolerant=True) == []
    assert judge(stream.events) == [("item.prefilled", 2)]


@pytest.mark.parametrize("field", ["id", "status"])
def test_tolerant_mode_misses_the_id_and_the_status_of_a_snapshot(field: str) -> None:
    broken = Broken(lawful.nothing()).unset(CREATED, f"response.{field}")
    rule = {"id": "lifecycle.response-id", "status": "lifecycle.status"}[field]
    assert judge(broken.events, tolerant=True) == [(rule, 0)]
    assert judge(broken.events) == [("snapshot.missing", 0)]


@pytest.mark.parametrize("field", ["call_id", "name"])
def test_tolerant_mode_misses_the_call_id_and_the_name_of_a_call(field: str) -> None:
    broken = Broken(lawful.function_call()).unset(ADDED, f"item.{field}").unset(DONE, f"item.{field}")
    rule = {"call_id": "call.id", "name": "call.name"}[field]
    assert (rule, 2) in judge(broken.events, tolerant=True)


def test_tolerant_mode_misses_the_output_of_the_terminal_snapshot() -> None:
    broken = Broken(lawful.text()).set(COMPLETED, "response", {"id": "resp_1", "status": "completed"})
    assert judge(broken.events, tolerant=True) == [("terminal.output", LAST - 1)]


@pytest.mark.parametrize("start", range(1, len(TEXT)))
def test_tolerant_mode_takes_a_stream_that_was_resumed_anywhere(start: int) -> None:
    assert judge(TEXT[start:], tolerant=True) == []


@pytest.mark.parametrize("start", range(1, len(lawful.heartbeats().events)))
def test_tolerant_mode_takes_interleaved_items_that_were_resumed_anywhere(start: int) -> None:
    events = lawful.heartbeats().events[start:]
    found = judge(events, tolerant=True)
    # a snapshot in the middle looks like a start: what was told before it is missed, which is a fair report
    expected = {"item.added-missing", "terminal.output", "item.index-order", "part.added-missing"}
    assert found == [] or (events[0]["type"] == WORKING and {rule for rule, _ in found} <= expected | BEFORE)


BEFORE = {"part.text-differs", "arguments.differs", "arguments.no-delta", "item.content-differs"}


def test_every_spelling_is_read_in_tolerant_mode() -> None:
    spellings = {
        "response.reasoning.": "response.reasoning_text.",
        "response.reasoning_summary_text.": "response.reasoning_summary.",
        "response.output_text.annotation.": "response.output_text_annotation.",
    }
    for stream in (lawful.reasoning(), lawful.annotated_text()):
        told = json.dumps(stream.events)
        for old, new in spellings.items():
            told = told.replace(f'"{old}', f'"{new}')
        assert judge(json.loads(told), tolerant=True) == []
        assert {rule for rule, _ in judge(json.loads(told))} == {"name.accent"}
        lost = [event for event in json.loads(told) if not event["type"].endswith(".delta")]
        assert "part.text-differs" in {rule for rule, _ in judge(renumber(lost), tolerant=True)}


@pytest.mark.parametrize("options", [{"accent": "klingon"}, {"transport": "pigeon"}])
def test_an_unknown_accent_or_transport_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        StreamChecker(**options)  # type: ignore[arg-type]


# --- any input

FIELDS = [
    "id",
    "item",
    "part",
    "response",
    "output",
    "content",
    "summary",
    "status",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "delta",
    "text",
    "arguments",
    "call_id",
    "name",
    "role",
    "usage",
    "error",
    "annotation",
    "annotation_index",
    "sequence_number",
    "logprobs",
]
TYPES = sorted({event["type"] for build in STREAMS.values() for event in build().events})
ITEM_TYPES = ["message", "reasoning", "function_call", "custom_tool_call", "acme:x", "output_text"]
LEAVES: list[Any] = [None, True, -1, 0, 1, 2**70, 1.5, "", "x", "\ud800", *ITEM_TYPES]
SHALLOW = st.sampled_from([*LEAVES, [], {}, [None], [[]], [{}]])
OBJECTS = st.dictionaries(st.sampled_from(["type", *FIELDS]), SHALLOW, max_size=6)
VALUES = (
    SHALLOW | OBJECTS | st.lists(OBJECTS, max_size=2) | st.builds(lambda inner: {"output": [inner]}, OBJECTS)
)
JSON = st.recursive(
    st.sampled_from(LEAVES) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
)


OPTIONS = st.fixed_dictionaries(
    {
        "accent": st.sampled_from(["openresponses", "openai", "copilot"]),
        "transport": st.sampled_from(["sse", "ndjson", "websocket"]),
        "tolerant": st.booleans(),
    }
)


@given(st.lists(EVENTS | OBJECTS, max_size=6), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_sequence_of_objects_makes_it_raise(events: list[Event], options: dict[str, Any]) -> None:
    judge(events, **options)


@given(st.sampled_from(sorted(STREAMS)), st.data(), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_change_to_a_lawful_stream_makes_it_raise(
    name: str, data: st.DataObject, options: dict[str, Any]
) -> None:
    events = STREAMS[name]().events
    for _ in range(data.draw(st.integers(1, 4))):
        holder: Any = events
        while True:
            key = data.draw(
                st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
            )
            inner = holder[key]
            if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
                break
            holder = inner
        holder[key] = copy.deepcopy(data.draw(VALUES))  # the next change may be made inside it
    judge([event for event in events if isinstance(event, dict)], **options)


@given(st.none() | st.text(max_size=10), st.text(max_size=40) | JSON.map(json.dumps), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_frame_makes_it_raise(name: str | None, data: str, options: dict[str, Any]) -> None:
    judge_frames([(name, data), (name, f"{data}\n{data}")], **options)


@pytest.mark.e2e
def test_values_nested_too_deep_to_compare_are_only_different() -> None:
    def nest() -> Any:
        value: Any = []
        for _ in range(20_000):
            value = [value]
        return value

    for stream in (lawful.text(), lawful.heartbeats(), lawful.annotated_text()):
        broken = Broken(stream)
        for event in broken.events:
            for field in ("item", "part", "annotation"):
                if isinstance(event.get(field), dict):
                    event[field]["extra"] = nest()
            for item in event.get("response", {}).get("output", []):
                item["extra"] = nest()
        assert {rule for rule, _ in judge(broken.events)} <= {
            "terminal.output-differs",
            "item.content-differs",
            "snapshot.output",
            "annotation.differs",
        }
    checker = StreamChecker()
    assert [found.rule for found in checker.feed_frame(None, "[" * 100_000)] == ["transport.json"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (1, 1.0, True),
        ({"a": [1, {"b": False}]}, {"a": [1, {"b": 0}]}, False),
        ({"a": 1, "b": True}, {"b": True, "a": 1.0}, True),
        ([("x", True)], [("x", 1)], False),
        ([1], [1, 1], False),
        ("1", 1, False),
        (None, False, False),
    ],
)
def test_a_flag_is_not_a_number(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) == same(other, one) == equal


def test_text_is_joined_at_its_end_and_not_for_a_lie_of_another_length() -> None:
    text = Text()
    for _ in range(1000):
        text.add("ab")
    assert not text.equals("ab")
    assert not text.equals("ab" * 1001)
    assert len(text._chunks) == 1000
    assert text.equals("ab" * 1000)
    assert len(text._chunks) == 1
    assert not text.equals("ba" * 1000)
    assert not text.equals(None)


# --- the table and the schema


def test_the_documentation_is_written_from_the_table() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "docs/rules.md is stale: `make docs` writes it anew"


def test_every_rule_says_what_must_hold_in_one_line_and_why() -> None:
    for id, rule in RULES.items():
        assert id == rule.id
        assert rule.title.endswith(".")
        assert "\n" not in rule.title
        assert rule.explanation.endswith(".")
        assert rule.breaks == "" or rule.breaks.endswith(".")


WRONG: list[Any] = [None, True, 7, 1.5, "wrong", [], {}, ["wrong"], {"type": "wrong"}]


def _variants(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """`value` with one thing in it replaced or left out, and where."""
    made: list[tuple[tuple[Any, ...], Any]] = [(path, wrong) for wrong in WRONG] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            rest = {other: value[other] for other in value if other != key}
            made.append(((*path, key), rest))
            for where, changed in _variants(inner, (*path, key)):
                made.append((where, {**value, key: changed}))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for where, changed in _variants(inner, (*path, index)):
                made.append((where, [*value[:index], changed, *value[index + 1 :]]))
    return made


SCHEMA_FORMAT: Event = {
    "type": "json_schema",
    "name": "a",
    "description": None,
    "schema": None,
    "strict": True,
}
SAMPLES: list[tuple[str, Shape, Event]] = [
    ("ResponseResource", RESOURCE, lawful.snapshot("completed", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("failed", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("incomplete", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("in_progress", []) | {"text": {"format": SCHEMA_FORMAT}}),
    (
        "ResponseResource",
        RESOURCE,
        lawful.snapshot("in_progress", [])
        | {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
    ),
    (
        "ResponseResource",
        RESOURCE,
        lawful.snapshot("in_progress", [])
        | {"tool_choice": {"type": "allowed_tools", "tools": [], "mode": "auto"}},
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [],
            "phase": "commentary",
        },
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "function_call",
            "id": "f",
            "status": "completed",
            "call_id": "c",
            "name": "n",
            "arguments": "",
        },
    ),
    (
        "ItemField",
        ITEM,
        {"type": "function_call_output", "id": "f", "status": "completed", "call_id": "c", "output": ""},
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "reasoning",
            "id": "r",
            "status": "completed",
            "summary": [],
            "content": [],
            "encrypted_content": "x",
        },
    ),
    ("ItemField", ITEM, {"type": "compaction", "id": "c", "status": "completed", "encrypted_content": "x"}),
    (
        "OutputTextContent",
        PART,
        {"type": "output_text", "text": "", "annotations": [lawful.CITATION], "logprobs": [LOGPROB]},
    ),
    ("RefusalContent", PART, {"type": "refusal", "refusal": ""}),
    ("ReasoningTextContent", PART, {"type": "reasoning_text", "text": ""}),
    ("SummaryTextContent", PART, {"type": "summary_text", "text": ""}),
]

# What the tables leave to other rules, or allow where the schema's union is closed.
ELSEWHERE = {
    "id": "item.id and lifecycle.response-id",
    "type": "name.item, part.type and name.annotation: types outside the schema may be lawful",
    "status": "item.added-status and item.done-status; required of every item (spec N60)",
    "role": "item.role",
    "output": "terminal.output and snapshot.output",
    "content": "part.fields, when the parts are told",
    "summary": "part.fields, when the parts are told",
    "usage": "usage.shape",
    "tools": "tools that the client declared are echoed as they came",
    "tool_choice": "so is the choice among them",
    "bytes": "numbers inside log probabilities are not looked at",
}


def _is_left_elsewhere(path: tuple[Any, ...]) -> bool:
    if path[:2] == ("text", "format"):
        return False
    if path[0] == "tools" and len(path) > 2:
        return bool(path[2] == "type")
    return path == ("annotations", 0) or bool(ELSEWHERE.keys() & set(path))


@pytest.mark.skipif(not SPEC.exists(), reason="the published OpenAPI file (../shared/spec) is not here")
@pytest.mark.parametrize(("name", "shape", "sample"), SAMPLES)
def test_the_tables_of_shapes_agree_with_the_published_schema(name: str, shape: Shape, sample: Event) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    document = json.loads(SPEC.read_text(encoding="utf-8"))
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid(sample)
    assert list(faults(sample, shape, "x")) == []
    for path, variant in _variants(sample):
        if _is_left_elsewhere(path):
            continue
        assert validator.is_valid(variant) == (not list(faults(variant, shape, "x"))), (path, variant)


@pytest.mark.skipif(not SPEC.exists(), reason="the published OpenAPI file (../shared/spec) is not here")
def test_a_snapshot_has_as_many_fields_as_the_published_schema_requires() -> None:
    document = json.loads(SPEC.read_text(encoding="utf-8"))
    required = document["components"]["schemas"]["ResponseResource"]["required"]
    assert set(RESOURCE.fields) == set(required)
    assert len(required) == 31
