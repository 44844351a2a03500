"""Every recording, cut off at every chunk and at random bytes: `make recordings`.

Wherever an upstream breaks off, the client gets a lawful stream with exactly one end, and nothing that came
before the cut is lost.
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


def output_of(speaker: ReadDialect, file: str, given: list[Frame]) -> list[dict[str, Any]]:
    """The output of a stream that ends after these frames; the stream is judged on the way."""
    stream = FrameStream(speaker, plan_for(file, speaker.name))
    events: list[Event] = stream.start()
    for frame in given:
        events += stream.feed(frame)
    events += stream.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    checker = StreamChecker(accent="openai")
    speak = ACCENTS["openai"]()
    for spoken in map(speak, events):
        assert checker.feed_frame(spoken.type, encode(spoken).decode()) == []
    output: list[dict[str, Any]] = to_builtins(events[-1])["response"]["output"]
    return output


def texts(item: dict[str, Any]) -> Iterator[str]:
    """The texts of an item that can be cut."""
    for part in [*item.get("summary", []), *(item.get("content") or [])]:
        yield part.get("text", part.get("refusal", ""))
    if item["type"] in ("function_call", "custom_tool_call"):
        yield item.get("arguments") or item.get("input") or ""


def assert_nothing_lost(cut: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    """Item by item, what the cut stream says is how the whole one begins."""
    assert len(cut) <= len(whole)
    for short, long in zip(cut, whole, strict=False):
        assert short["type"] == long["type"]
        for one, other in zip(texts(short), texts(long), strict=False):
            assert other.startswith(one)


@pytest.mark.parametrize(("file", "name"), RECORDINGS)
def test_a_recording_cut_at_any_chunk(file: str, name: str) -> None:
    speaker, given = dialect(name), frames(file)
    whole = output_of(speaker, file, given)
    before = 0
    for length in range(len(given)):
        cut = output_of(speaker, file, given[:length])
        assert_nothing_lost(cut, whole)
        said = sum(len(text) for item in cut for text in texts(item))
        assert said >= before or length == 0
        before = said


@pytest.mark.parametrize(("file", "name"), [each for each in RECORDINGS if each[0].endswith(".sse")])
def test_a_recording_cut_at_random_bytes(file: str, name: str) -> None:
    speaker, data = dialect(name), (ROOT / file).read_bytes()
    whole = output_of(speaker, file, frames(file))
    random = Random(file)
    for position in random.sample(range(len(data)), min(BYTE_CUTS, len(data))):
        assert_nothing_lost(output_of(speaker, file, frames(file, data[:position])), whole)
