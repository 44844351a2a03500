"""Mutations of lawful streams: every way to put one fault into a stream, applied wherever it fits.

Each mutant says whether it is harmless, and why. The checker must report no violation in a harmless mutant,
and at least one in any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.stream.checker import StreamChecker
from tests.stream.lawful import CUSTOM_TOOL, Event, renumber, snapshot

TERMINAL = ("response.completed", "response.failed", "response.incomplete")
HEARTBEAT = "response.in_progress"
ADDED, DONE = "response.output_item.added", "response.output_item.done"


EXTENSIONS = ("response.metadata", "ping", "response.rate_limits.updated")


class Mutant(NamedTuple):
    what: str
    events: list[Event]
    harmless: str = ""
    """Why this mutant breaks no rule; empty if it does."""
    harmless_to_openai: str = ""
    """Why it breaks none for clients of OpenAI's wire format, which accept events of any type."""

    def why_harmless(self, accent: str) -> str:
        return self.harmless or (self.harmless_to_openai if accent != "openresponses" else "")


def found_in(events: list[Event], accent: str) -> list[str]:
    checker = StreamChecker(accent=accent)
    found = [f"{fault.rule} at {fault.sequence}" for event in events for fault in checker.feed(event)]
    return found + [f"{fault.rule} at the end" for fault in checker.end()]


# --- properties of an event


def is_extension(event: Event) -> bool:
    """A vendor's own event, or an event without an item that clients ignore."""
    return ":" in str(event["type"]) or event["type"] in EXTENSIONS


def is_not_checked(event: Event) -> bool:
    """Sub-events of tools whose text is not compared with anything."""
    return str(event["type"]).startswith(
        ("response.shell_call_", "response.apply_patch_call_", "response.web_search_")
    )


def item_of(event: Event) -> int | None:
    """The item that an event belongs to, by its place."""
    place = event.get("output_index")
    return place if isinstance(place, int) else None


def part_of(event: Event) -> tuple[str, int] | None:
    for name in ("content_index", "summary_index"):
        if name in event:
            return name, event[name]
    return None


def is_delta(event: Event) -> bool:
    return str(event["type"]).endswith(".delta") and not is_not_checked(event)


def is_annotation(event: Event) -> bool:
    return str(event["type"]) == "response.output_text.annotation.added"


# --- events lost, doubled, moved


def drop(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        rest = renumber(events[:place] + events[place + 1 :])
        yield Mutant(f"drop {place} {event['type']}", rest, why_droppable(event, rest))


def why_droppable(event: Event, rest: list[Event]) -> str:
    type = event["type"]
    if type == HEARTBEAT:
        first = next(
            (other for other in rest if other["type"] == HEARTBEAT or item_of(other) is not None), event
        )
        return "an in_progress still comes before all output" if first["type"] == HEARTBEAT else ""
    if type == "response.queued":
        return "a queued response may start immediately"
    if type == "error":
        return "response.failed is enough; error is optional"
    if is_extension(event) and item_of(event) is None:
        return "extensions may be omitted"
    return "sub-events of tools are not checked" if is_not_checked(event) else ""


def drop_and_keep_numbers(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        yield Mutant(f"lose {place} {event['type']}", events[:place] + events[place + 1 :])


def double(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        twice = renumber([*events[: place + 1], event, *events[place + 1 :]])
        yield Mutant(f"double {place} {event['type']}", twice, why_repeatable(event))


def why_repeatable(event: Event) -> str:
    if event["type"] in (HEARTBEAT, "response.queued"):
        return "a heartbeat"
    if is_extension(event) and item_of(event) is None:
        return "extensions may be repeated"
    return "sub-events of tools are not checked" if is_not_checked(event) else ""


def double_and_keep_numbers(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        yield Mutant(f"repeat {place} {event['type']}", [*events[: place + 1], event, *events[place + 1 :]])


def swap(events: list[Event]) -> Iterator[Mutant]:
    for place, (one, two) in enumerate(pairwise(events)):
        swapped = renumber([*events[:place], two, one, *events[place + 2 :]])
        what = f"swap {place} {one['type']} and {two['type']}"
        yield Mutant(what, swapped, why_swappable(one, two))


def why_swappable(one: Event, two: Event) -> str:
    """Return why the opposite order is lawful too; empty if it is not."""
    if {**one, "sequence_number": 0} == {**two, "sequence_number": 0}:
        return "they are the same"
    for event, other in ((one, two), (two, one)):
        if is_extension(event) and item_of(event) is None:
            edge = other["type"] in (*TERMINAL, "response.created")
            return "" if edge else "extensions may occur anywhere between the first event and the last"
    for event, other in ((one, two), (two, one)):
        if event["type"] == HEARTBEAT:
            return why_swappable_with_heartbeat(other)
    if item_of(one) is None or item_of(two) is None:
        return ""  # the order of lifecycle events is fixed
    if item_of(one) != item_of(two):
        both = one["type"] == two["type"] == ADDED
        return "" if both else "items may interleave; only the order in which they are added is fixed"
    return why_swappable_in_item(one, two)


def why_swappable_with_heartbeat(other: Event) -> str:
    closing = ("_text.done", "reasoning.done", "refusal.done", "arguments.done", "input.done", "part.done")
    if item_of(other) is not None and other["type"].endswith(closing):
        return "the end of a text or a part does not change the snapshot"
    return ""


def why_swappable_in_item(one: Event, two: Event) -> str:
    if ADDED in (one["type"], two["type"]) or DONE in (one["type"], two["type"]):
        return ""
    if is_not_checked(one) and is_not_checked(two):
        return "sub-events of tools are not checked"
    if is_delta(one) and is_delta(two) and one["delta"] + two["delta"] == two["delta"] + one["delta"]:
        return "the text is the same"
    if part_of(one) != part_of(two):
        opening = one["type"].endswith("part.added") and two["type"].endswith("part.added")
        return "" if opening else "parts of one item may overlap; only the order in which they open is fixed"
    if is_annotation(one) != is_annotation(two) and not any(
        e["type"].endswith("part.done") for e in (one, two)
    ):
        opening = any(event["type"].endswith("part.added") for event in (one, two))
        return "" if opening else "an annotation may come at any time while its part is open"
    return ""


def swap_and_keep_numbers(events: list[Event]) -> Iterator[Mutant]:
    for place in range(len(events) - 1):
        one, two = events[place], events[place + 1]
        yield Mutant(f"exchange {place} and the next", [*events[:place], two, one, *events[place + 2 :]])


def move_to_the_end(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events[:-1]):
        rest = renumber([*events[:place], *events[place + 1 :], event])
        yield Mutant(f"move {place} {event['type']} to the end", rest)


def move_to_the_front(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events[1:], 1):
        rest = renumber([event, *events[:place], *events[place + 1 :]])
        yield Mutant(f"move {place} {event['type']} to the front", rest)


def cut(events: list[Event]) -> Iterator[Mutant]:
    for length in range(len(events)):
        yield Mutant(f"cut after {length}", events[:length])


def repeat_stream(events: list[Event]) -> Iterator[Mutant]:
    yield Mutant("the whole stream again", renumber(events + events))


# --- numbers and names


def change_number(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for number in (event["sequence_number"] + 1, -1, str(place), 1.0 * place, None):
            yield Mutant(f"number {place} as {number!r}", change(events, place, "sequence_number", number))


def rename_event(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for name in ("response.unknown", "unknown", event["type"].upper(), ""):
            what = f"rename {place} {event['type']} to {name!r}"
            shouted = ":" in name and name == event["type"].upper()
            harmless = "a slug may be upper case" if shouted else ""
            lost = why_droppable(event, events[:place] + events[place + 1 :]) if name else ""
            yield Mutant(what, change(events, place, "type", name), harmless, lost)


OTHER_KINDS = {
    "response.output_text": "response.refusal",
    "response.refusal": "response.output_text",
    "response.reasoning": "response.output_text",
    "response.reasoning_text": "response.output_text",
    "response.reasoning_summary_text": "response.reasoning",
    "response.function_call_arguments": "response.custom_tool_call_input",
    "response.custom_tool_call_input": "response.function_call_arguments",
}


def change_text_kind(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        family, _, end = event["type"].rpartition(".")
        if family in OTHER_KINDS:
            name = f"{OTHER_KINDS[family]}.{end}"
            yield Mutant(f"send {place} {event['type']} as {name}", change(events, place, "type", name))


def change_terminal_event(events: list[Event]) -> Iterator[Mutant]:
    for name in TERMINAL:
        if name != events[-1]["type"]:
            yield Mutant(f"end with {name}", change(events, len(events) - 1, "type", name))


# --- fields


def why_free(event: Event, field: str) -> str:
    if is_extension(event) and item_of(event) is None:
        return "fields of an extension are its own"
    if is_not_checked(event) and field not in ("output_index", "item_id", "type"):
        return "sub-events of tools are not checked"
    return ""


def remove_field(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for field in event:
            changed = without(events, place, (field,))
            harmless = why_free(event, field) if field not in ("type", "sequence_number") else ""
            if is_not_checked(event) and field == "item_id":
                harmless = "sub-events of shell calls have no item id"
            if event["type"] == "response.function_call_arguments.done" and field == "name":
                harmless = "the name need not be repeated"
            yield Mutant(f"remove {field} of {place} {event['type']}", changed, harmless)


def null_field(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for field, value in event.items():
            harmless = why_free(event, field) if field not in ("type", "sequence_number") else ""
            harmless = "it was null" if value is None else harmless
            yield Mutant(
                f"null {field} of {place} {event['type']}", change(events, place, field, None), harmless
            )


def shift_index(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for field in ("output_index", "content_index", "summary_index", "annotation_index"):
            if field in event:
                for index in (event[field] + 1, -1):
                    what = f"{field} of {place} {event['type']} as {index}"
                    yield Mutant(what, change(events, place, field, index))


def change_item_id(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        for id in ("", "other_id", 7):
            if "item_id" in event:
                yield Mutant(f"item_id of {place} as {id!r}", change(events, place, "item_id", id))
            if "item" in event:
                item = {**event["item"], "id": id}
                yield Mutant(f"id of the item of {place} as {id!r}", change(events, place, "item", item))


def change_text(events: list[Event]) -> Iterator[Mutant]:
    """Another text in a delta, in the end of the text, or in the end of the part."""
    for place, event in enumerate(events):
        for field in ("delta", "text", "refusal", "arguments", "input", "name"):
            if field in event:
                for text in (event[field] + "x", event[field][:-1], event[field].swapcase() + " "):
                    if text != event[field]:
                        what = f"{field} of {place} {event['type']} as {text!r}"
                        harmless = why_free(event, field)
                        yield Mutant(what, change(events, place, field, text), harmless)


# --- inside items, parts and snapshots

OWN_FIELDS = {
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "output",
    "error",
    "usage",
}
ECHO = set(snapshot("completed", [])) - OWN_FIELDS
"""Fields of a snapshot that repeat the request. Rules check their types, but not that they stay the same."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def changed_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return `value` with `new` at one path; everything else is shared."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = changed_at(value[path[0]], path[1:], new)
    return copied


def without(events: list[Event], place: int, path: tuple[str, ...]) -> list[Event]:
    """Return the events without one field of one of them."""
    holder: Any = events[place]
    for step in path[:-1]:
        holder = holder[step]
    rest = {key: value for key, value in holder.items() if key != path[-1]}
    changed: list[Event] = changed_at(events, (place, *path[:-1]), rest)
    return changed


def change_a_leaf(events: list[Event]) -> Iterator[Mutant]:
    """Any string, number or boolean inside an event, changed to another of its type."""
    for place, event in enumerate(events):
        for path, value in leaves({key: event[key] for key in HOLDERS if key in event}):
            other = another(value)
            # Whether the name and the type of a custom tool must match depends on the calls.
            if other != value and value not in CUSTOM_TOOL.values():
                what = f"{'.'.join(map(str, path))} of {place} {event['type']} from {value!r} to {other!r}"
                yield Mutant(what, changed_at(events, (place, *path), other), why_leaf(event, path))


HOLDERS = ("item", "part", "response", "logprobs", "error", "code", "message", "param")


def confuse_booleans_and_numbers(events: list[Event]) -> Iterator[Mutant]:
    """`true` as 1, 0 as `false`: equal in Python, but not in JSON."""
    for place, event in enumerate(events):
        for path, value in leaves({key: event[key] for key in HOLDERS if key in event}):
            if isinstance(value, int) and value in (0, 1):
                other = int(value) if isinstance(value, bool) else bool(value)
                what = f"{'.'.join(map(str, path))} of {place} {event['type']} from {value!r} to {other!r}"
                yield Mutant(what, changed_at(events, (place, *path), other), why_item_leaf(event, path))


def another(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return {} if value == [] else value


def why_leaf(event: Event, path: tuple[Any, ...]) -> str:
    if path == ("error", "type"):
        return "it occurs nowhere else"
    if path[0] != "response":
        return why_item_leaf(event, path)
    if (
        path[1] in ECHO
        and path[1] not in ("truncation", "tool_choice")
        and path[1:] != ("text", "format", "type")
    ):
        return "an echo of the request"
    if path[1] == "error":
        return "the message of an error is free" if path[2] == "message" else ""
    if path[1] == "incomplete_details":
        return "the reason is free"
    if path[1] == "completed_at":
        return "completed_at occurs only once"
    if path[-1] in ("cached_tokens", "reasoning_tokens"):
        return "still at most the total"
    return ""


OWN = ("action", "operation", "output", "result", "execution", "cached", "hits", "by")


def why_item_leaf(event: Event, path: tuple[Any, ...]) -> str:
    streamed = ("message", "reasoning", "function_call", "custom_tool_call")
    if path[0] != "item" or event["type"] != ADDED or event["item"]["type"] in streamed:
        return ""
    if path[1] == "status":
        return "tools may be added in any state"
    if path[1] in (*OWN, "arguments", "encrypted_content"):
        return "fields of a tool that is not streamed may change until it is done"
    return ""


def shrink_output(events: list[Event]) -> Iterator[Mutant]:
    output = events[-1]["response"]["output"]
    for index in range(len(output)):
        rest = output[:index] + output[index + 1 :]
        yield Mutant(
            f"lose output {index}", changed_at(events, (len(events) - 1, "response", "output"), rest)
        )
    if output:
        twice = [*output, output[-1]]
        yield Mutant(
            "double the last output", changed_at(events, (len(events) - 1, "response", "output"), twice)
        )
    if len(output) > 1:
        back = output[::-1]
        yield Mutant("reverse the output", changed_at(events, (len(events) - 1, "response", "output"), back))


def remove_a_field_inside(events: list[Event]) -> Iterator[Mutant]:
    """Any field of an item, a part or a response."""
    for place, event in enumerate(events):
        for holder in ("item", "part", "response"):
            for field in event.get(holder, ()):
                changed = without(events, place, (holder, field))
                what = f"remove {holder}.{field} of {place} {event['type']}"
                yield Mutant(what, changed, why_removable(event, holder, field))


def why_removable(event: Event, holder: str, field: str) -> str:
    if holder == "part" and field == "logprobs" and event["type"].endswith(".added"):
        return "logprobs are optional, and compared when the part is done"
    if holder == "item" and event["type"] == ADDED:
        if field in OWN:
            return "fields of a tool that is not streamed may be added when it is done"
        if field == "arguments" and event["item"]["type"].endswith("tool_search_call"):
            return "fields of a tool that is not streamed may be added when it is done"
        if field == "call_id" and event["item"]["call_id"] is None:
            return "a search that the server runs has no call id"
    return ""


def add_an_outcome(events: list[Event]) -> Iterator[Mutant]:
    """An error, or incomplete_details, in a snapshot that has none."""
    outcomes = {"error": {"code": "x", "message": "x"}, "incomplete_details": {"reason": "x"}}
    for place, event in enumerate(events):
        for field, value in outcomes.items():
            if "response" in event and event["response"][field] is None:
                failed = event["type"] == "response.failed"
                yield Mutant(
                    f"{field} in {place} {event['type']}",
                    changed_at(events, (place, "response", field), value),
                    "a failed response may have incomplete_details" if failed else "",
                )


def share_an_id(events: list[Event]) -> Iterator[Mutant]:
    """The id of an item equal to that of the response or to its call id, and ids that are too long."""
    response_id = events[0]["response"]["id"]
    yield Mutant("a long response id", rename_everywhere(events, response_id, "r" * 65))
    for item in events[-1]["response"]["output"]:
        for id in (response_id, item.get("call_id"), "i" * 65):
            if id is not None:
                yield Mutant(f"{item['id']} as {id}", rename_everywhere(events, item["id"], id))


def rename_everywhere(events: list[Event], old: str, new: str) -> list[Event]:
    renamed: list[Event] = json.loads(json.dumps(events).replace(json.dumps(old), json.dumps(new)))
    return renamed


def call_twice(events: list[Event]) -> Iterator[Mutant]:
    """Ask B4: the complete call again, under a new item id, before the end."""
    for event in events:
        if event["type"] == DONE and event["item"]["type"] == "function_call":
            index = len(events[-1]["response"]["output"])
            item = {**event["item"], "id": "fc_other"}
            place = {"item_id": "fc_other", "output_index": index}
            again = [
                {
                    "type": ADDED,
                    "output_index": index,
                    "item": {**item, "arguments": "", "status": "in_progress"},
                },
                {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]},
                {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]},
                {"type": DONE, "output_index": index, "item": item},
            ]
            output = [*events[-1]["response"]["output"], item]
            last = changed_at(events[-1], ("response", "output"), output)
            yield Mutant(f"call {event['item']['call_id']} twice", renumber([*events[:-1], *again, last]))


# --- harmless changes


def split_a_delta(events: list[Event]) -> Iterator[Mutant]:
    for place, event in enumerate(events):
        if is_delta(event) and len(event["delta"]) > 1:
            rest = {key: value for key, value in event.items() if key != "logprobs"}
            halves = [{**event, "delta": event["delta"][:1]}, {**rest, "delta": event["delta"][1:]}]
            pieces = renumber([*events[:place], *halves, *events[place + 1 :]])
            yield Mutant(f"split {place}", pieces, "the size of a delta is free")


def merge_deltas(events: list[Event]) -> Iterator[Mutant]:
    for place, (one, two) in enumerate(pairwise(events)):
        same_place = (item_of(one), part_of(one)) == (item_of(two), part_of(two))
        if is_delta(one) and one["type"] == two["type"] and same_place:
            both = {**one, "delta": one["delta"] + two["delta"]}
            if "logprobs" in one or "logprobs" in two:
                both["logprobs"] = one.get("logprobs", []) + two.get("logprobs", [])
            merged = renumber([*events[:place], both, *events[place + 2 :]])
            yield Mutant(f"merge {place}", merged, "the size of a delta is free")


def add_a_field(events: list[Event]) -> Iterator[Mutant]:
    for place in range(len(events)):
        extended = change(events, place, "x_unknown", {"any": ["thing"]})
        yield Mutant(f"extend {place}", extended, "events may have fields of their own")


def insert_an_extension(events: list[Event]) -> Iterator[Mutant]:
    for place in range(len(events) + 1):
        noisy = renumber([*events[:place], {"type": "acme:trace"}, *events[place:]])
        after_error = place > 0 and events[place - 1]["type"] == "error"
        inside = 0 < place < len(events) and not after_error
        yield Mutant(
            f"insert at {place}",
            noisy,
            "extensions may occur between the first event and the last" if inside else "",
        )


def change(events: list[Event], place: int, field: str, value: Any) -> list[Event]:
    changed = list(events)
    changed[place] = {**events[place], field: value}
    return changed


MUTATIONS: list[Callable[[list[Event]], Iterator[Mutant]]] = [
    drop,
    drop_and_keep_numbers,
    double,
    double_and_keep_numbers,
    swap,
    swap_and_keep_numbers,
    move_to_the_end,
    move_to_the_front,
    cut,
    repeat_stream,
    change_number,
    rename_event,
    change_text_kind,
    change_terminal_event,
    remove_field,
    null_field,
    shift_index,
    change_item_id,
    change_text,
    change_a_leaf,
    confuse_booleans_and_numbers,
    shrink_output,
    remove_a_field_inside,
    call_twice,
    add_an_outcome,
    share_an_id,
    split_a_delta,
    merge_deltas,
    add_a_field,
    insert_an_extension,
]
