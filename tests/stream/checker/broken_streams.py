"""Checking streams, and lawful streams that are broken in one place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation
from tests.stream import lawful
from tests.stream.lawful import Event, Stream, renumber

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


def check(events: list[Event], **options: Any) -> Found:
    """Check these events; return the rule and the position of each violation."""
    checker = StreamChecker(**options)
    found: list[Violation] = []
    for event in events:
        found += checker.feed(event)
    found += checker.end()
    assert checker.lawful == (not found)
    assert checker.events == len(events)
    return [(violation.rule, violation.sequence) for violation in found]


def check_frames(frames: Sequence[tuple[str | None, str]], **options: Any) -> Found:
    checker = StreamChecker(**options)
    found: list[Violation] = []
    for name, data in frames:
        found += checker.feed_frame(name, data)
    found += checker.end()
    return [(violation.rule, violation.sequence) for violation in found]


TEXT = lawful.text().events
FRAMES = lawful.frames(TEXT)
LAST = len(TEXT)
LONG = "x" * 65
INCOMPLETE_DETAILS: Event = {"reason": "max_output_tokens"}
ERROR: Event = {"code": "server_error", "message": "Gone."}
LOGPROB: Event = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}
TEXT_PART: Event = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
SUMMARY_PART: Event = {"type": "summary_text", "text": ""}


class Broken:
    """A copy of a lawful stream, to be broken."""

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
        """Change an item in every event that contains all of it."""
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
    """One fault, and where it must be reported: at the nth event of a type, or at the end."""

    rule: str
    stream: Callable[[], Stream]
    change: Callable[[Broken], object]
    at: str
    nth: int = 0
    tolerant: bool | None = None
    """Whether tolerant mode reports it. None: as the rule says."""

    @property
    def id(self) -> str:
        return f"{self.rule} at {self.at}"


def break_stream(case: Case) -> tuple[Broken, int]:
    broken = Broken(case.stream())
    case.change(broken)
    if case.at == END:
        return broken, len(broken.events)
    return broken, broken.find(case.at, case.nth)


def assert_found_once(case: Case) -> None:
    """A fault is reported once, under its rule, at the event where it shows."""
    broken, position = break_stream(case)
    assert check(broken.events, accent=broken.accent) == [(case.rule, position)]


def assert_tolerated_as_documented(case: Case) -> None:
    """Tolerant mode ignores what its rules say, and nothing else."""
    broken, _ = break_stream(case)
    found = check(broken.events, accent=broken.accent, tolerant=True)
    expected = RULES[case.rule].tolerant if case.tolerant is None else case.tolerant
    assert bool(found) == expected, found
    assert all(RULES[rule].tolerant for rule, _ in found)
