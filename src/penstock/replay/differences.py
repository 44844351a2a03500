"""What differs between two streams that were made of the same bytes, and between two rendered requests.

Ids, times, numbers and repeated signs of life are not compared; nor is how a text was cut into events.
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
_PIECES = ("delta", "logprobs")
"""What pieces of one text have of their own."""


class Difference(Struct, kw_only=True, omit_defaults=True):
    where: str
    """An event, and the item that it is about; or the request of an attempt."""
    field: str
    """Empty where a whole event is there only before, or only now."""
    before: Any = _ABSENT
    now: Any = _ABSENT
    more: int = 0
    """In how many other places the same differs: what a delta says is repeated by four events."""


class Comparison(Struct, kw_only=True):
    """`events` counts those that were sent, without repeated signs of life."""

    events: int
    is_partial: bool
    """The recording ends before the response did: only so far was it compared."""
    differences: list[Difference]
    requests: list[Difference]
    """What of the rendered requests differs."""

    @property
    def is_same(self) -> bool:
        return not self.differences and not self.requests


def compare(recording: Recording, replayed: Replayed) -> Comparison:
    logged: list[Json] = [msgspec.json.decode(event.data) for event in recording.events]
    if recording.is_cut and logged[-1]["type"] in TERMINAL:
        # Nobody sent these: the next gateway wrote them, all in one moment.
        end = recording.events[-1].time
        logged = [each for each, event in zip(logged, recording.events, strict=True) if event.time < end]
    produced = [_plain(event) for event in replayed.events]
    before, now = _steps(logged, recording.id), _steps(produced, recording.id)
    if recording.is_cut:
        before, now = _as_far(before, now)
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


# A stream in the form in which it is compared


class _Step(Struct):
    """An event, or all pieces of a text that came between two other events."""

    event: Json
    item: str = ""
    """The type of the item that it is about."""

    @property
    def type(self) -> str:
        return str(self.event["type"])

    @property
    def where(self) -> str:
        about = f", item {self.event.get('output_index', 0)} ({self.item})" if self.item else ""
        return f"{self.type}{about}"


def _steps(events: Sequence[Json], response_id: str) -> list[_Step]:
    names = _Names(response_id)
    steps: list[_Step] = []
    run: dict[str, list[Json]] = {}
    for event in map(names.neutral, _without_heartbeats(events)):
        if isinstance(event.get("delta"), str):
            run.setdefault(_channel(event), []).append(event)
            continue
        steps += _joined(run, names)
        run = {}
        steps.append(_Step(event, names.item_of(event)))
    return steps + _joined(run, names)


def _without_heartbeats(events: Iterable[Json]) -> list[Json]:
    kept: list[Json] = []
    has_begun = False
    for event in events:
        is_beat = event["type"] == _HEARTBEAT
        if not (is_beat and has_begun):
            kept.append(event)
        has_begun = has_begun or is_beat
    return kept


def _channel(event: Json) -> str:
    """What pieces of the same text have in common."""
    return repr(sorted((name, value) for name, value in event.items() if name not in _PIECES))


def _joined(run: Mapping[str, list[Json]], names: _Names) -> list[_Step]:
    steps: list[_Step] = []
    for pieces in run.values():
        whole = {**pieces[0], "delta": "".join(piece["delta"] for piece in pieces)}
        if "logprobs" in whole:
            whole["logprobs"] = [each for piece in pieces for each in piece.get("logprobs") or ()]
        steps.append(_Step(whole, names.item_of(whole)))
    return steps


class _Names:
    """Ids by the order in which they appear: `msg 1` is the first message of a stream, whatever its id."""

    def __init__(self, response_id: str) -> None:
        self._stem = response_id.partition("_")[2] or response_id
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._types: dict[str, str] = {}

    def item_of(self, event: Json) -> str:
        return self._types.get(event.get("item_id") or (event.get("item") or {}).get("id") or "", "")

    def neutral(self, event: Json) -> Json:
        """The event without what may differ."""
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
        # An upstream's own call id is compared, one that was made up here is not.
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


def _as_far(before: list[_Step], now: list[_Step]) -> tuple[list[_Step], list[_Step]]:
    """As far as both go: of a gateway that was killed, neither its log nor its recording is whole."""
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
            for one, other in zip(before[start:end], now[new_start:new_end], strict=True):
                found += [
                    Difference(where=one.where, field=path, before=was, now=becomes)
                    for path, was, becomes in _deep("", one.event, other.event)
                ]
            continue
        found += [Difference(where=step.where, field="", before="sent") for step in before[start:end]]
        found += [Difference(where=step.where, field="", now="sent") for step in now[new_start:new_end]]
    return found


def _deep(path: str, before: Any, now: Any) -> list[tuple[str, Any, Any]]:
    """Every place where two JSON values differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            found
            for name in [*before, *(name for name in now if name not in before)]
            for found in _deep(
                f"{path}.{name}" if path else name, before.get(name, _ABSENT), now.get(name, _ABSENT)
            )
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            found
            for index, (one, other) in enumerate(zip(before, now, strict=True))
            for found in _deep(f"{path}[{index}]", one, other)
        ]
    return [] if before == now and type(before) is type(now) else [(path, before, now)]


def _collapsed(differences: list[Difference]) -> list[Difference]:
    """Each once: a text stands in its deltas, and in every event that repeats it."""
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
