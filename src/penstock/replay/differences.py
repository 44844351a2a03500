"""Compare two streams produced from the same upstream bytes, and two rendered requests.

Ids, times, sequence numbers and heartbeats are not compared, nor how a text is split into deltas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec
from msgspec import Struct

from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.wire import to_builtins
from penstock.replay.recording import Recording
from penstock.replay.runner import Replayed

Json = dict[str, Any]

_ABSENT = "(nothing)"
_SEALED = "(sealed)"
_HEARTBEAT = "response.in_progress"
_UNCOMPARED = ("sequence_number", "obfuscation")
_TIMES = ("created_at", "completed_at")
_PER_DELTA = ("delta", "logprobs")
"""Fields in which the deltas of one text differ."""


class Difference(Struct, kw_only=True, omit_defaults=True):
    where: str
    """An event and its item, or the request of an attempt."""
    field: str
    """Empty if a whole event exists only before or only now."""
    before: Any = _ABSENT
    now: Any = _ABSENT
    more: int = 0
    """Other places with the same difference: four later events repeat the text of a delta."""


class Comparison(Struct, kw_only=True):
    events: int
    """The number of events that were sent, without heartbeats."""
    is_partial: bool
    """The recording ends before the response does; only the recorded part was compared."""
    differences: list[Difference]
    requests: list[Difference]
    """Differences in the rendered requests."""

    @property
    def is_same(self) -> bool:
        return not self.differences and not self.requests


def compare(recording: Recording, replayed: Replayed) -> Comparison:
    """Compare the recorded events and requests with the replayed ones."""
    logged: list[Json] = [msgspec.json.decode(event.data) for event in recording.events]
    if recording.is_cut and logged[-1]["type"] in TERMINAL:
        # The next gateway wrote these, all with the same time; they were never sent.
        end = recording.events[-1].time
        logged = [each for each, event in zip(logged, recording.events, strict=True) if event.time < end]
    produced = [_plain(event) for event in replayed.events]
    before, now = _steps(logged, recording.id), _steps(produced, recording.id)
    if recording.is_cut:
        before, now = _common_prefix(before, now)
    differences = _between(before, now)
    if replayed.refused is not None:
        refused = f"refused with {replayed.refused.status}: {replayed.refused}"
        differences.insert(0, Difference(where="the answer", field="", before="a stream", now=refused))
    return Comparison(
        events=len(_without_heartbeats(logged)),
        is_partial=recording.is_cut,
        differences=_collapsed(differences),
        requests=_requests(replayed),
    )


def _plain(event: Event) -> Json:
    plain: Json = to_builtins(event)
    return plain


def _requests(replayed: Replayed) -> list[Difference]:
    found: list[Difference] = []
    for each in replayed.rendered:
        sent = each.attempt.sent
        where = f"request {sent.attempt}, {sent.model} at {sent.target}"
        now = msgspec.json.decode(msgspec.json.encode(each.now))
        found += [
            Difference(where=where, field=path, before=old, now=new)
            for path, old, new in _deep("", each.attempt.body, now)
        ]
    return found


# A stream, normalised for comparison


class _Step(Struct):
    """An event, or all deltas of one text between two other events."""

    event: Json
    item: str = ""
    """The type of the item that the event belongs to."""

    @property
    def type(self) -> str:
        return str(self.event["type"])

    @property
    def where(self) -> str:
        item = f", item {self.event.get('output_index', 0)} ({self.item})" if self.item else ""
        return f"{self.type}{item}"


def _steps(events: Sequence[Json], response_id: str) -> list[_Step]:
    names = _Names(response_id)
    steps: list[_Step] = []
    deltas: dict[str, list[Json]] = {}
    for event in map(names.neutral, _without_heartbeats(events)):
        if isinstance(event.get("delta"), str):
            deltas.setdefault(_text_key(event), []).append(event)
            continue
        steps += _joined(deltas, names)
        deltas = {}
        steps.append(_Step(event, names.item_of(event)))
    return steps + _joined(deltas, names)


def _without_heartbeats(events: Iterable[Json]) -> list[Json]:
    """Drop every `response.in_progress` but the first."""
    remaining: list[Json] = []
    has_begun = False
    for event in events:
        is_progress = event["type"] == _HEARTBEAT
        if not (is_progress and has_begun):
            remaining.append(event)
        has_begun = has_begun or is_progress
    return remaining


def _text_key(event: Json) -> str:
    """Return a key that all deltas of one text share."""
    return repr(sorted((name, value) for name, value in event.items() if name not in _PER_DELTA))


def _joined(deltas: Mapping[str, list[Json]], names: _Names) -> list[_Step]:
    steps: list[_Step] = []
    for events in deltas.values():
        joined = {**events[0], "delta": "".join(event["delta"] for event in events)}
        if "logprobs" in joined:
            joined["logprobs"] = [each for event in events for each in event.get("logprobs") or ()]
        steps.append(_Step(joined, names.item_of(joined)))
    return steps


class _Names:
    """Replace ids by their order of appearance: `msg 1` is the first message of a stream."""

    def __init__(self, response_id: str) -> None:
        self._stem = response_id.partition("_")[2] or response_id
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._types: dict[str, str] = {}

    def item_of(self, event: Json) -> str:
        return self._types.get(event.get("item_id") or (event.get("item") or {}).get("id") or "", "")

    def neutral(self, event: Json) -> Json:
        """Return the event without the fields that may differ."""
        plain = {name: value for name, value in event.items() if name not in _UNCOMPARED}
        if isinstance(plain.get("item_id"), str):
            plain["item_id"] = self._name(plain["item_id"])
        if isinstance(plain.get("item"), dict):
            plain["item"] = self._item(plain["item"])
        if isinstance(plain.get("response"), dict):
            response = {name: value for name, value in plain["response"].items() if name not in _TIMES}
            response["id"] = ""
            response["output"] = [self._item(item) for item in response.get("output") or ()]
            plain["response"] = response
        return plain

    def _item(self, item: Json) -> Json:
        plain = dict(item)
        if isinstance(plain.get("id"), str):
            plain["id"] = self._name(plain["id"])
            self._types[plain["id"]] = str(plain.get("type", ""))
        # The upstream's own call ids are compared, generated ones are not.
        if isinstance(plain.get("call_id"), str) and self._stem in plain["call_id"]:
            plain["call_id"] = self._name(plain["call_id"])
        if plain.get("type") == "compaction":
            plain["encrypted_content"] = _SEALED
        return plain

    def _name(self, id: str) -> str:
        if id not in self._names:
            prefix = id.partition("_")[0]
            self._counts[prefix] += 1
            self._names[id] = f"{prefix} {self._counts[prefix]}"
        return self._names[id]


def _common_prefix(before: list[_Step], now: list[_Step]) -> tuple[list[_Step], list[_Step]]:
    """Cut both to the same length: the log and the recording of a killed gateway are both incomplete."""
    length = min(len(before), len(now))
    before, now = before[:length], now[:length]
    for old, new in zip(reversed(before), reversed(now), strict=True):
        if not (isinstance(old.event.get("delta"), str) and isinstance(new.event.get("delta"), str)):
            break
        size = min(len(old.event["delta"]), len(new.event["delta"]))
        old.event["delta"], new.event["delta"] = old.event["delta"][:size], new.event["delta"][:size]
    return before, now


# Comparing


def _between(before: list[_Step], now: list[_Step]) -> list[Difference]:
    old, new = ([f"{step.type} {step.item}" for step in steps] for steps in (before, now))
    found: list[Difference] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            for old_step, new_step in zip(before[start:end], now[new_start:new_end], strict=True):
                found += [
                    Difference(where=old_step.where, field=path, before=old_value, now=new_value)
                    for path, old_value, new_value in _deep("", old_step.event, new_step.event)
                ]
            continue
        found += [Difference(where=step.where, field="", before="sent") for step in before[start:end]]
        found += [Difference(where=step.where, field="", now="sent") for step in now[new_start:new_end]]
    return found


_DEEPEST = 64
"""Deeper values are compared as a whole: schemas of tools may be nested hundreds of levels."""


def _deep(path: str, before: Any, now: Any, depth: int = 0) -> list[tuple[str, Any, Any]]:
    """Return every path at which two JSON values differ, with both values."""
    if depth < _DEEPEST and isinstance(before, dict) and isinstance(now, dict):
        return [
            found
            for name in [*before, *(name for name in now if name not in before)]
            for found in _deep(
                f"{path}.{name}" if path else name,
                before.get(name, _ABSENT),
                now.get(name, _ABSENT),
                depth + 1,
            )
        ]
    if depth < _DEEPEST and isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            found
            for index, (old, new) in enumerate(zip(before, now, strict=True))
            for found in _deep(f"{path}[{index}]", old, new, depth + 1)
        ]
    return [] if type(before) is type(now) and _is_same(before, now) else [(path, before, now)]


def _is_same(before: Any, now: Any) -> bool:
    try:
        return bool(before == now)
    except RecursionError:
        return msgspec.json.encode(before) == msgspec.json.encode(now)


def _collapsed(differences: list[Difference]) -> list[Difference]:
    """Report each difference once: a text is in its deltas and in every event that repeats it."""
    first: dict[str, Difference] = {}
    for each in differences:
        is_text = isinstance(each.before, str) and isinstance(each.now, str) and each.field
        name = "" if is_text else (each.field.rpartition(".")[2] or each.where)
        key = repr((name, each.before, each.now))
        if key in first:
            first[key].more += 1
        else:
            first[key] = each
    return list(first.values())
