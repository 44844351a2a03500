"""Checks for every recording of Chat Completions and of dialects that stream content blocks.

Unlike in `recording_checks.py`, the content before a cut is counted in the raw chunks, and unknown fields may
add a diagnostic.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from penstock.dialects.plan import ReadDialect
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.wire import to_builtins
from penstock.sse import Decoder, Frame
from tests.dialects.recordings import (
    ROOT,
    FrameStream,
    files,
    frames,
    plan_for,
    reading,
    translate,
)
from tests.stream.running import violations

BYTE_BY_BYTE = 60_000
"""Larger recordings are not fed one byte at a time: that takes seconds and tests nothing new."""

BORDERS = 50

TextAndReasoning = Callable[[dict[str, Any]], tuple[str, str]]
"""Returns the text and the reasoning in one chunk, read as simply as possible."""


def smallest(folder: str, count: int) -> list[str]:
    return sorted(files(folder), key=lambda file: ((ROOT / file).stat().st_size, file))[:count]


def check_splits(file: str) -> None:
    """The frames do not depend on how the bytes are split."""
    data, expected = (ROOT / file).read_bytes(), frames(file)
    rng = random.Random(file)
    borders = sorted(rng.sample(range(len(data)), min(40, len(data))))
    at_random = [data[i:j] for i, j in zip([0, *borders], [*borders, len(data)], strict=True)]
    one_by_one = [data[i : i + 1] for i in range(len(data))] if len(data) < BYTE_BY_BYTE else []
    for pieces in filter(None, (at_random, one_by_one)):
        decoder = Decoder()
        assert [frame for piece in pieces for frame in decoder.feed(piece)] + decoder.end() == expected


def check_noise(dialect: ReadDialect, file: str, noise: list[Frame]) -> None:
    """Unknown fields and events change nothing."""
    plan, clean = plan_for(file, dialect.name), frames(file)
    noisy: list[Frame] = []
    for frame in clean:
        noisy += noise
        if frame.data.startswith("{"):
            frame = Frame(frame.event, json.dumps({**json.loads(frame.data), "p": "abc"}))
        noisy.append(frame)
    expected = translate(dialect, plan, clean)
    events = translate(dialect, plan, noisy + noise)
    assert _content(events) == _content(expected)


def check_cuts(
    dialect: ReadDialect, file: str, cuts: Iterator[list[Frame]], text_and_reasoning: TextAndReasoning
) -> None:
    """Wherever the stream is cut off, it is lawful, ends once, and loses nothing from before the cut."""
    plan = plan_for(file, dialect.name)
    complete = _content(translate(dialect, plan, frames(file)))
    for cut in cuts:
        stream = FrameStream(dialect, plan)
        events = stream.start() + [event for frame in cut for event in stream.feed(frame)] + stream.end()
        assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
        assert violations(events, "openai") == []
        ours = reading(events)
        chunks = [json.loads(frame.data) for frame in cut if _is_json(frame.data)]
        texts = [text_and_reasoning(chunk) for chunk in chunks]
        if events[-1].type != "response.failed" or "truncated" in _code(events):
            assert ours.text == "".join(text for text, _ in texts)
            assert ours.reasoning == "".join(reasoning for _, reasoning in texts)
        for call, full in zip(_calls(events), complete["calls"], strict=False):
            assert full.startswith(call) or call == "{}"


def chunk_borders(file: str) -> Iterator[list[Frame]]:
    """Yield the recording cut after each chunk; for a long recording, after a sample of them."""
    all_frames = frames(file)
    borders = range(len(all_frames))
    some = borders if len(all_frames) <= BORDERS else sorted(random.Random(file).sample(borders, BORDERS))
    return (all_frames[:end] for end in some)


def byte_cuts(file: str, count: int = 20) -> Iterator[list[Frame]]:
    data, rng = (ROOT / file).read_bytes(), random.Random(file)
    for _ in range(count):
        cut = data[: rng.randrange(len(data))]
        if not file.endswith(".sse"):
            cut = cut.decode(errors="ignore").encode()
        yield frames(file, cut)


def _is_json(data: str) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _code(events: list[Event]) -> str:
    return str(to_builtins(events[-1])["response"]["error"]["code"])


def _calls(events: list[Event]) -> list[str]:
    output = to_builtins(events[-1])["response"]["output"]
    return [item["arguments"] for item in output if item["type"] == "function_call"]


def _content(events: list[Event]) -> dict[str, Any]:
    response = to_builtins(events[-1])["response"]
    return {
        "reading": reading(events),
        "calls": _calls(events),
        "output": response["output"],
        "usage": response["usage"],
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**20) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def objects(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these fields, each mostly valid and sometimes any JSON value."""
    return st.fixed_dictionaries(
        {}, optional={name: value | value | value | json_values for name, value in fields.items()}
    )


def as_frame(value: Any) -> Frame:
    return Frame(None, json.dumps(value))
