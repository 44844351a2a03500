"""Checks for every recording of any dialect; used in full for Gemini, Ollama and Cohere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Struct

from penstock.dialects.plan import Plan, ReadDialect, Target
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from penstock.sse import Decoder, Frame
from penstock.stream.deltas import Delta
from tests.dialects.recordings import (
    ROOT,
    FrameStream,
    disagreements,
    frames,
    plan_for,
    reading,
    translate,
)
from tests.stream.running import violations

BORDERS = 100
"""Beyond this number, borders are sampled; `make recordings` tests all of them."""
BYTE_CUTS = 20


def plan(dialect: str, vendor: str = "") -> Plan:
    target = Target(model="m", vendor=vendor, dialect=dialect)
    return Plan(request=CreateResponse(model="m"), target=target, accent="openai")


def read(dialect: ReadDialect, chunks: list[Any], vendor: str = "") -> list[Delta]:
    """Return the deltas of hand-written chunks, including those of the end."""
    reader = dialect.reader(plan(dialect.name, vendor))
    all_frames = [Frame(None, each if isinstance(each, str) else json.dumps(each)) for each in chunks]
    return [delta for frame in all_frames for delta in reader.feed(frame)] + reader.end()


def response(dialect: ReadDialect, chunks: list[Any]) -> dict[str, Any]:
    """Return the last snapshot of hand-written chunks, after checking that their stream is lawful."""
    all_frames = [Frame(None, each if isinstance(each, str) else json.dumps(each)) for each in chunks]
    return last(translate(dialect, plan(dialect.name), all_frames))


def last(events: list[Event]) -> dict[str, Any]:
    snapshot: dict[str, Any] = to_builtins(events[-1])["response"]
    return snapshot


def assert_agrees(dialect: ReadDialect, file: str, exceptions: dict[str, str]) -> None:
    """The oracles agree, or the file is an exception. An exception that is obsolete fails."""
    events = translate(dialect, plan_for(file, dialect.name), frames(file))
    found = disagreements(file, reading(events))
    if file in exceptions:
        assert found, f"{file} agrees now: remove it from the exceptions"
    else:
        assert found == []


def assert_same_after_noise(dialect: ReadDialect, file: str) -> None:
    """Other splits into reads, comments, pings and unknown fields change nothing."""
    all_frames = frames(file)
    events = translate(dialect, plan_for(file, dialect.name), all_frames)
    if file.endswith(".sse"):
        data = (ROOT / file).read_bytes()
        for reads in ([data[i : i + 1] for i in range(len(data))], list(_random_reads(data, Random(file)))):
            decoder = Decoder()
            again = [frame for each in reads for frame in decoder.feed(each)] + decoder.end()
            assert again == all_frames
        commented = data.replace(b"data: ", b": a comment\ndata: ")
        assert frames(file, b": ping\n\n" + commented) == all_frames
    noisy = [Frame(frame.event, _with_unknown_fields(frame.data)) for frame in all_frames]
    again_events = translate(dialect, plan_for(file, dialect.name), noisy)
    assert again_events == events


def _random_reads(data: bytes, random: Random) -> Iterator[bytes]:
    while data:
        size = random.randint(1, 400)
        yield data[:size]
        data = data[size:]


def _with_unknown_fields(data: str) -> str:
    try:
        value = json.loads(data)
    except ValueError:
        return data
    return (
        json.dumps({"x_new": [{"text": "no"}], **value, "x_more": None}) if isinstance(value, dict) else data
    )


def assert_survives_cuts(dialect: ReadDialect, file: str) -> None:
    """Cut at chunk borders and at random bytes: one terminal event, lawful, a prefix of the output."""
    all_frames = frames(file)
    complete = _output(dialect, file, all_frames)
    random = Random(file)
    borders = set(range(len(all_frames)))
    if len(borders) > BORDERS:
        borders = {
            *range(10),
            *range(len(all_frames) - 10, len(all_frames)),
            *random.sample(range(len(all_frames)), 40),
        }
    for border in sorted(borders):
        assert_begins(_output(dialect, file, all_frames[:border]), complete)
    data = (ROOT / file).read_bytes()
    if not file.endswith(".array.json"):
        for _ in range(BYTE_CUTS):
            cut = data[: random.randrange(len(data))]
            assert_begins(_output(dialect, file, _cut_frames(file, cut)), complete)


def _cut_frames(file: str, data: bytes) -> list[Frame]:
    if file.endswith(".sse"):
        return frames(file, data)
    return [Frame(None, line) for line in data.decode(errors="replace").split("\n") if line.strip()]


def _output(dialect: ReadDialect, file: str, all_frames: list[Frame]) -> list[dict[str, Any]]:
    stream = FrameStream(dialect, plan_for(file, dialect.name))
    events = stream.start()
    for frame in all_frames:
        events += stream.feed(frame)
    events += stream.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    assert violations(events, "openai") == []
    output: list[dict[str, Any]] = last(events)["output"]
    return output


def assert_begins(cut: list[dict[str, Any]], complete: list[dict[str, Any]]) -> None:
    assert len(cut) <= len(complete)
    for short, long in zip(cut, complete, strict=False):
        assert short["type"] == long["type"]
        for one, other in zip(_texts(short), _texts(long), strict=False):
            assert other.startswith(one)


def _texts(item: dict[str, Any]) -> Iterator[str]:
    for part in [*item.get("summary", []), *(item.get("content") or [])]:
        yield part.get("text", "")
    yield item.get("arguments", "")


def json_with(names: list[str], texts: list[str]) -> SearchStrategy[Any]:
    """Any JSON, mostly with the fields and texts that a dialect knows."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
        st.sampled_from(texts),
    )
    fields = st.sampled_from(names) | st.text(max_size=3)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=5),
        max_leaves=15,
    )


def assert_endures(dialect: ReadDialect, chunks: list[Any]) -> None:
    """For any chunks, nothing is raised and the stream is lawful; a body that is not streamed ends too."""
    all_frames = [Frame(None, json.dumps(each)) for each in chunks]
    translate(dialect, plan(dialect.name), all_frames)
    body = json.dumps(chunks[0] if len(chunks) == 1 else chunks).encode()
    assert isinstance(dialect.read_body(plan(dialect.name), body)[-1], Struct)
