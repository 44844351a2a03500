"""Checks the snapshots in lifecycle events: one id, the right status, the items as they were streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.stream.checker.items import CONSTANT, ID_LENGTH, STREAMED, Items
from penstock.stream.checker.names import Names
from penstock.stream.checker.shapes import PART, RESOURCE, RESOURCE_WITH_SCHEMA, faults
from penstock.stream.checker.state import (
    FLOWS,
    OUTPUT_TEXT,
    Findings,
    ItemState,
    PartState,
    same,
    show,
    string,
)

SNAPSHOTS = {
    "response.created": ("in_progress", "queued"),
    "response.queued": ("queued",),
    "response.in_progress": ("in_progress",),
    "response.completed": ("completed",),
    "response.failed": ("failed",),
    "response.incomplete": ("incomplete",),
}
"""The events that contain a snapshot, and the statuses that it may have in each."""

TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})

_DETAILS = (
    ("input_tokens_details", "cached_tokens", "input_tokens"),
    ("output_tokens_details", "reasoning_tokens", "output_tokens"),
)
_OWN_RULES = {
    "response.failed": "response.error.",
    "response.incomplete": "response.incomplete_details.",
}
"""Fields of a terminal snapshot that have a rule of their own, apart from the shape of a snapshot."""

_OUTCOMES = {
    "error": ("response.failed",),
    "incomplete_details": ("response.incomplete", "response.failed"),
}
"""Fields that describe the end of a response, and the terminal events that may contain them."""


class Snapshots:
    """The state of the response, as its snapshots show it."""

    def __init__(self, findings: Findings, names: Names, items: Items) -> None:
        self._report = findings.report
        self._strict = not findings.tolerant
        self._shape = RESOURCE_WITH_SCHEMA if names.knows_openai else RESOURCE
        self._items = items
        self._created = False
        self._started = False
        self._running = False
        self._id = ""
        self._created_at: Any = None

    def check(self, type: str, event: Mapping[str, Any]) -> None:
        response = event.get("response")
        self._check_order(type)
        self._started = self._started or type == "response.in_progress"
        if not isinstance(response, dict):
            self._report("event.fields", f"{type} has no `response`", (type, "response"))
            return
        self._running = self._running or response.get("status") == "in_progress"
        if self._strict:
            self._check_shape(type, response)
        self._check_identity(type, response)
        self._check_status(type, response)
        self._check_outcome(type, response)
        self._check_usage(response.get("usage"))
        if type in TERMINAL:
            self._check_end(type, response)
            self._compare_at_end(type, response.get("output"))
        elif self._strict:
            self._compare_so_far(response.get("output"))

    def expect_started(self, type: str) -> None:
        """Report output before the response is in progress."""
        if not self._started:
            self._report("lifecycle.started", f"{type} before response.in_progress", "")

    # --- the response itself

    def _check_order(self, type: str) -> None:
        if type == "response.created":
            if self._created:
                self._report("lifecycle.created-once", "response.created is repeated")
            self._created = True
        elif type == "response.queued" and self._running:
            self._report("lifecycle.queued-late", "response.queued after the response was in progress", "")

    def _check_shape(self, type: str, response: dict[str, Any]) -> None:
        own = _OWN_RULES.get(type, "none")
        for fault in faults(response, self._shape, "response"):
            if not fault.path.startswith(own):
                rule = "snapshot.missing" if fault.missing else "snapshot.type"
                self._report(rule, fault.message, fault.path)

    def _check_identity(self, type: str, response: dict[str, Any]) -> None:
        """Check id, `created_at` and model. In strict mode the shape reports missing and invalid fields."""
        id, created_at = response.get("id"), response.get("created_at")
        if id == "" or (not isinstance(id, str) and not self._strict):
            self._report("lifecycle.response-id", f"the snapshot of {type} has no id", "")
        elif isinstance(id, str) and id != self._id:
            if self._id:
                self._report(
                    "lifecycle.response-id",
                    f"the response id changed from {show(self._id)} to {show(id)}",
                    "",
                )
            self._id = self._items.response_id = self._id or id
            if len(id) > ID_LENGTH:
                self._report("lifecycle.response-id-length", f"the response id has {len(id)} characters", "")
        if created_at.__class__ is int and created_at != self._created_at:
            if self._created_at is not None:
                self._report(
                    "lifecycle.created-at",
                    f"`created_at` changed from {self._created_at} to {created_at}",
                    "",
                )
            self._created_at = created_at if self._created_at is None else self._created_at
        if response.get("model") == "":
            self._report("lifecycle.model", "`model` is empty", "")

    def _check_status(self, type: str, response: dict[str, Any]) -> None:
        status = response.get("status")
        if status not in SNAPSHOTS[type] and (isinstance(status, str) or not self._strict):
            self._report("lifecycle.status", f"{type} with status {show(status)}", type)
        completed_at = response.get("completed_at")
        if type == "response.completed" and completed_at is None and "completed_at" in response:
            self._report("terminal.completed-at", "completed_at is null in response.completed")
        elif completed_at.__class__ is not int:
            pass
        elif type not in TERMINAL:
            self._report("terminal.completed-at", f"completed_at is set in {type}", "")
        elif response.get("created_at").__class__ is int and completed_at < response["created_at"]:
            created_at = response["created_at"]
            message = f"completed_at is {completed_at}, before created_at {created_at}"
            self._report("terminal.completed-at", message)

    def _check_outcome(self, type: str, response: dict[str, Any]) -> None:
        """Check the fields that describe the end. In strict mode the shape reports values of other types."""
        for field, ends in _OUTCOMES.items():
            value = response.get(field)
            if value and type not in ends and (isinstance(value, dict) or not self._strict):
                self._report("snapshot.outcome", f"{field} is set in {type}", field)

    def _check_end(self, type: str, response: dict[str, Any]) -> None:
        error, details = response.get("error"), response.get("incomplete_details")
        if type == "response.failed" and not _has_strings(error, "code", "message"):
            self._report("terminal.failed-error", "response.failed has no error with a code and a message")
        if type == "response.incomplete" and not _has_strings(details, "reason"):
            self._report("terminal.incomplete-reason", "response.incomplete has no reason")

    def _check_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        values = {name: usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")}
        for holder, name, _ in _DETAILS:
            details = usage.get(holder)
            if isinstance(details, dict):
                values[name] = details.get(name)
            elif self._strict or details is not None:
                values[name] = None
        counts = {name: value for name, value in values.items() if value.__class__ is int and value >= 0}
        if len(counts) < len(values):
            invalid = ", ".join(name for name in values if name not in counts)
            self._report("usage.shape", f"usage has no valid {invalid}", "")
            return
        total, sum = counts["total_tokens"], counts["input_tokens"] + counts["output_tokens"]
        if total != sum:
            self._report("usage.sum", f"total_tokens is {total}, input plus output is {sum}", "")
        for _, name, limit in _DETAILS:
            if counts.get(name, 0) > counts[limit]:
                self._report("usage.sum", f"{name} is {counts[name]}, {limit} only {counts[limit]}", "")

    # --- its output

    def _compare_so_far(self, output: Any) -> None:
        """Compare the output of a snapshot before the end with the items so far."""
        if not isinstance(output, list):
            return
        items = self._items.in_order()
        if len(output) != len(items):
            self._report(
                "snapshot.output", f"the snapshot has {len(output)} items, {len(items)} were added", ""
            )
            return
        for item, value in zip(items, output, strict=True):
            comparable = not (item.disputed or item.prefilled or item.adopted)
            if comparable and not (isinstance(value, dict) and _matches_so_far(item, value)):
                self._report(
                    "snapshot.output", f"{item} in the snapshot differs from what was streamed", item.number
                )

    def _compare_at_end(self, event: str, output: Any) -> None:
        """Compare the output of the terminal snapshot with the items as they were closed."""
        items = self._items.in_order()
        for item in items:
            if item.final is None:
                self._report("item.done-missing", f"{item} was never done", item.number)
            elif event == "response.completed" and item.final.get("status") == "incomplete":
                self._report("terminal.incomplete-item", f"{item} is incomplete", item.number)
        if not isinstance(output, list):
            if not self._strict:
                self._report("terminal.output", "the terminal snapshot has no list of items")
        elif self._items.is_resumed:
            pass  # it also contains items from before the stream was resumed
        elif len(output) != len(items):
            self._report(
                "terminal.output",
                f"the terminal snapshot has {len(output)} items, but {len(items)} were streamed",
            )
        else:
            self._compare_final(items, output)

    def _compare_final(self, items: list[ItemState], output: list[Any]) -> None:
        for item, value in zip(items, output, strict=True):
            id = string(value, "id") if isinstance(value, dict) else ""
            owner = self._items.with_id(id)
            if owner is not None and owner is not item and id != item.id:
                self._report("terminal.output", f"the terminal snapshot has {owner} instead of {item}")
                return
            if id and item.id and id != item.id:
                self._report(
                    "item.id-changed",
                    f"the id of {item} is {show(id)} in the terminal snapshot",
                    item.number,
                )
            elif item.final is not None and not item.disputed and not self._is_final(item.final, value):
                self._report(
                    "terminal.output-differs",
                    f"{item} in the terminal snapshot differs from how it was closed",
                )

    def _is_final(self, final: dict[str, Any], value: Any) -> bool:
        return same(final, value) if self._strict else same(_essence(final), _essence(value))


def _matches_so_far(item: ItemState, value: dict[str, Any]) -> bool:
    if item.final is not None:
        return same(item.final, value)
    announced = item.announced or {}
    if value.get("id") != item.id or not all(same(value.get(name), announced.get(name)) for name in CONSTANT):
        return False
    if item.type in STREAMED and value.get("status") != "in_progress":
        return False
    flow = FLOWS.get(item.type)
    if flow is not None:
        return item.flow.equals(value.get(flow.field))
    for where in item.parts:
        parts, members = item.parts_in_order(where), value.get(where, [])
        if not isinstance(members, list) or len(members) != len(parts):
            return False
        if not all(_part_matches_so_far(part, member) for part, member in zip(parts, members, strict=True)):
            return False
    return True


def _part_matches_so_far(part: PartState, value: Any) -> bool:
    if not part.matches(value) or any(faults(value, PART, "")):
        return False
    if part.type != OUTPUT_TEXT.part:
        return True
    logprobs_match = part.logprobs is None or same(value.get("logprobs", []), part.logprobs)
    return logprobs_match and same(value["annotations"], part.annotations)


def _essence(item: Any) -> Any:
    """Return the fields that a client acts on."""
    if not isinstance(item, dict):
        return item
    fields = [item.get(name) for name in ("type", "name", "call_id", "arguments", "input")]
    for where in ("content", "summary"):
        parts = item.get(where)
        fields.extend(_text_of(part) for part in (parts if isinstance(parts, list) else ()))
    return fields


def _text_of(part: Any) -> Any:
    return (part.get("text"), part.get("refusal")) if isinstance(part, dict) else part


def _has_strings(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) and value[name] for name in names)
