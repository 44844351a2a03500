"""Every recording, cut off at every chunk and at random bytes: `make recordings`.

Wherever an upstream is cut off, the client gets a lawful stream with exactly one end, and nothing from before
the cut is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from penstock.dialects.plan import ReadDialect
from penstock.dialects.registry import dialect
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import Frame
from penstock.stream.accents import ACCENTS
from penstock.stream.checker import StreamChecker
from tests.dialects.recordings import ROOT, FrameStream, every, frames, needs_recordings, plan_for

RECORDINGS = every()
BYTE_CUTS = 20

pytestmark = [pytest.mark.recordings, needs_recordings]


def output_of(read_dialect: ReadDialect, file: str, received: list[Frame]) -> list[dict[str, Any]]:
    """Return the output of a stream that ends after these frames, and check that it is lawful."""
    stream = FrameStream(read_dialect, plan_for(file, read_dialect.name))
    events: list[Event] = stream.start()
    for frame in received:
        events += stream.feed(frame)
    events += stream.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    checker = StreamChecker(accent="openai")
    for event in map(ACCENTS["openai"](), events):
        assert checker.feed_frame(event.type, encode(event).decode()) == []
    output: list[dict[str, Any]] = to_builtins(events[-1])["response"]["output"]
    return output


def texts(item: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of an item that a cut can shorten."""
    for part in [*item.get("summary", []), *(item.get("content") or [])]:
        yield part.get("text", part.get("refusal", ""))
    if item["type"] in ("function_call", "custom_tool_call"):
        yield item.get("arguments") or item.get("input") or ""


def assert_nothing_lost(cut: list[dict[str, Any]], complete: list[dict[str, Any]]) -> None:
    """Each text of the cut stream is a prefix of the same text in the complete stream."""
    assert len(cut) <= len(complete)
    for short, long in zip(cut, complete, strict=False):
        assert short["type"] == long["type"]
        for one, other in zip(texts(short), texts(long), strict=False):
            assert other.startswith(one)


@pytest.mark.parametrize(("file", "name"), RECORDINGS)
def test_a_recording_cut_at_any_chunk(file: str, name: str) -> None:
    read_dialect, all_frames = dialect(name), frames(file)
    complete = output_of(read_dialect, file, all_frames)
    before = 0
    for length in range(len(all_frames)):
        cut = output_of(read_dialect, file, all_frames[:length])
        assert_nothing_lost(cut, complete)
        length_now = sum(len(text) for item in cut for text in texts(item))
        assert length_now >= before or length == 0
        before = length_now


@pytest.mark.parametrize(("file", "name"), [each for each in RECORDINGS if each[0].endswith(".sse")])
def test_a_recording_cut_at_random_bytes(file: str, name: str) -> None:
    read_dialect, data = dialect(name), (ROOT / file).read_bytes()
    complete = output_of(read_dialect, file, frames(file))
    random = Random(file)
    for position in random.sample(range(len(data)), min(BYTE_CUTS, len(data))):
        assert_nothing_lost(output_of(read_dialect, file, frames(file, data[:position])), complete)
