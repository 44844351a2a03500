"""Checks that a reader gives the same deltas with and without its typed decoder for common chunks.

Whole streams are compared, frame by frame: what a chunk leaves behind in the reader shows in the deltas of
the chunks after it, and at the end.
"""

from __future__ import annotations

import json
from importlib import import_module
from itertools import islice, product
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec.structs import replace

from penstock.dialects.plan import Plan, Quirks
from penstock.dialects.registry import dialect
from penstock.protocol.request import CreateResponse
from penstock.sse import Frame
from penstock.stream.deltas import Delta
from tests.dialects.recording_checks import plan
from tests.dialects.recordings import FOLDERS, files, frames
from tests.effort import THOROUGH

Read = list[tuple[list[Delta], bool]]
"""The deltas of each frame, and whether the answer was over after it."""


def common_frames(name: str, received: list[Frame]) -> int:
    """Return how many frames the typed decoder of a dialect accepts."""
    module: Any = import_module(f"penstock.dialects.{name}.common_chunks")
    return sum(module.read_common(frame.data) is not None for frame in received)


def assert_same(name: str, for_plan: Plan, received: list[Frame]) -> None:
    expected = _read(name, for_plan, received, is_general=True)
    for position, (general, common) in enumerate(
        zip(expected, _read(name, for_plan, received, is_general=False), strict=True)
    ):
        last = received[position] if position < len(received) else "the end"
        assert common == general, f"in frame {position}: {last}"


def _read(name: str, for_plan: Plan, received: list[Frame], *, is_general: bool) -> Read:
    reader = dialect(name).reader(for_plan)
    module: Any = import_module(f"penstock.dialects.{name}.reader")
    read_common = (lambda _: None) if is_general else module.read_common
    with patch.object(module, "read_common", read_common):
        read: Read = [(reader.feed(frame), reader.is_over) for frame in received]
        return [*read, (reader.end(), reader.is_over)]


def plans(name: str) -> list[Plan]:
    """Return plans that differ in what a reader has to do with text and reasoning."""
    plain = plan(name)
    with_markup = replace(plain.target, quirks=Quirks(think_tags=True, tool_markup=True))
    sealing = CreateResponse(model="m", include=["reasoning.encrypted_content"])
    return [plain, replace(plain, target=with_markup), replace(plain, request=sealing)]


def assert_recordings_agree(name: str, share: float) -> None:
    """Compare every recording of a dialect. At least this share of its frames is common."""
    common = total = 0
    for file in files(FOLDERS[name]):
        received = frames(file)
        total += len(received)
        common += common_frames(name, received)
        for each in plans(name):
            assert_same(name, each, received)
    assert common >= share * total


def assert_triples_agree(name: str, common: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Compare every common chunk between any two chunks: what came before, and what it leaves behind."""
    every = [Frame(None, json.dumps(each)) for each in (*common, *other)]
    cases = product(every, every[: len(common)], every, plans(name))
    for *triple, for_plan in islice(cases, 0, None, 1 if THOROUGH else 5):
        assert_same(name, for_plan, triple)


# Generated streams


class Literally(str):
    """JSON text that Python would not write."""


VALUES: list[Any] = [
    *(None, "", " ", "x", "stop", "<think>a", "caf\u00e9", "\ud83d", "\ude00", "\U0001f30a"),
    *(0, 1, -1, 2**63, 10**30, 1.5, True, False, [], {}, ["x"], {"a": 1}, [{"text": "x"}], [None]),
    *map(Literally, ["1.0", "-0", "1e2", "1e999", "NaN", "9" * 5000, '"\\ud83d\\ude00"', '"\\u0000"']),
]
"""Values to put into any field."""


RUBBISH = [b"\xff", b"\xe2\x82", b"\xef\xbb\xbf", b"\n", b" ", b'"', b"\\", b"}"]
"""Bytes to insert anywhere."""


class _Object(list[tuple[str, Any]]):
    """A JSON object as a list of fields, so that a name can occur twice."""


def _as_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return _Object((name, _as_fields(each)) for name, each in value.items())
    return [_as_fields(each) for each in value] if isinstance(value, list) else value


def _objects_in(value: Any) -> list[_Object]:
    if isinstance(value, _Object):
        return [value, *(found for _, each in value for found in _objects_in(each))]
    return [found for each in value for found in _objects_in(each)] if isinstance(value, list) else []


def _mutate(draw: DrawFn, chunk: _Object, names: list[str]) -> None:
    """Change one object somewhere in a chunk."""
    found = draw(st.sampled_from(_objects_in(chunk)))
    place = draw(st.integers(0, max(0, len(found) - 1)))
    kind = draw(st.sampled_from(["add", "replace", "drop", "repeat", "move"]))
    value = _as_fields(draw(st.sampled_from(VALUES)))
    if kind == "add" or not found:
        found.insert(place, (draw(st.sampled_from(names)), value))
    elif kind == "replace":
        found[place] = (found[place][0], value)
    elif kind == "drop":
        del found[place]
    elif kind == "repeat":
        found.append((found[place][0], value if draw(st.booleans()) else found[place][1]))
    else:
        found.append(found.pop(place))


def _json(value: Any, *, is_ascii: bool) -> str:
    if isinstance(value, _Object):
        fields = (f"{json.dumps(name)}: {_json(each, is_ascii=is_ascii)}" for name, each in value)
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list):
        return f"[{','.join(_json(each, is_ascii=is_ascii) for each in value)}]"
    return str(value) if isinstance(value, Literally) else json.dumps(value, ensure_ascii=is_ascii)


@st.composite
def _frame(draw: DrawFn, chunks: list[dict[str, Any]], names: list[str]) -> Frame:
    chunk = _as_fields(draw(st.sampled_from(chunks)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        _mutate(draw, chunk, names)
    data = _json(chunk, is_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(data)))
        rubbish = draw(
            st.sampled_from([b"\xff", b"\xe2\x82", b"\xef\xbb\xbf", b"\n", b" ", b'"', b"\\", b"}"])
        )
        data = data[:place] + rubbish + data[place:]
    event = draw(st.sampled_from([None, None, None, "message", "error", chunk[0][0] if chunk else None]))
    return Frame(event, data.decode("utf-8", "replace"))


def streams(name: str, chunks: list[dict[str, Any]], names: list[str]) -> SearchStrategy[Any]:
    """Return plans and streams of these chunks. Most chunks have a few changes: fields that were added,
    dropped, repeated or moved, other values, other bytes. `names` are the fields to add."""
    frame = _frame(chunks, names) | st.just(Frame(None, "[DONE]"))
    return st.tuples(st.sampled_from(plans(name)), st.lists(frame, max_size=8))
