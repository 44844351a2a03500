"""Checking captured streams: what is found, on which line, and which sources cannot be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.captures.reader import OneDocument
from penstock.captures.stream_check import OtherFormat, StreamCheck
from tests.cli import streams
from tests.cli.check_runs import DOUBLED, LAWFUL
from tests.dialects.format_samples import STREAMS, sse

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "recordings" / "openai-responses"


def found(*chunks: bytes, **options: Any) -> list[tuple[str, str, int]]:
    check = StreamCheck(**options)
    return [(each.rule, each.where, each.line) for each in check.violations(chunks)]


def test_violations_have_the_line_on_which_their_event_begins() -> None:
    places = [("call.duplicate", "event 4", 13), ("item.done-missing", "event 8", 25)]
    assert found(DOUBLED)[:2] == places
    lines = streams.as_lines(streams.announced_twice())
    assert [line for _, _, line in found(lines)] == [5, 9, 9]


def test_violations_of_the_end_have_the_line_of_the_last_event() -> None:
    cut = streams.as_sse(streams.hello()[:-1], done=False)
    assert found(cut) == [
        ("terminal.missing", "at the end", 28),
        ("transport.done-missing", "at the end", 28),
    ]
    assert [place for *place, _ in found(b"")] == [
        ["terminal.missing", "at the end"],
    ]


@given(st.lists(st.sampled_from(["hello", "doubled", "ping", "blank"]), max_size=6), st.integers(1, 400))
def test_a_line_is_where_an_event_begins_whatever_is_around_it(pieces: list[str], size: int) -> None:
    filling = {"hello": LAWFUL, "doubled": DOUBLED, "ping": b": ping\n\n", "blank": b"\r\n"}
    stream = b"".join(filling[piece] for piece in pieces) + DOUBLED
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    lines = [b"", *stream.split(b"\n")]
    for violation in StreamCheck().violations(chunks):
        assert lines[violation.line].startswith((b"event: ", b"data: [DONE]"))
        assert not lines[violation.line - 1].strip()


@pytest.mark.skipif(not RECORDINGS.exists(), reason="needs the recordings next to the repository")
def test_the_lines_of_recordings_begin_an_event() -> None:
    checks = 0
    for path in sorted(RECORDINGS.glob("*.sse"))[::5]:
        lines = [b"", *path.read_bytes().split(b"\n")]
        for violation in StreamCheck().violations([path.read_bytes()]):
            assert lines[violation.line].startswith((b"event:", b"data:", b"id:")), path.name
            assert not lines[violation.line - 1].strip(), path.name
            checks += 1
    assert checks > 20


def test_a_stream_of_another_api_is_not_checked() -> None:
    for name, stream in STREAMS.items():
        if name != "responses":
            with pytest.raises(OtherFormat) as raised:
                found(sse(name, done=True))
            assert raised.value.name == name, stream


@pytest.mark.parametrize("size", [1, 30, 10_000])
def test_the_first_frame_that_is_recognised_decides_however_the_stream_is_read(size: int) -> None:
    stream = sse("chat") + LAWFUL
    with pytest.raises(OtherFormat, match="chat"):
        found(*[stream[begin : begin + size] for begin in range(0, len(stream), size)])


def test_a_document_is_not_checked() -> None:
    with pytest.raises(OneDocument, match="one JSON document"):
        found(b'{\n "type": "response.created"\n}\n')


def test_a_line_over_the_limit_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.captures.reader.Lines.__init__.__defaults__", (50,))
    places = found(b'{"a": 1}\n', b"x" * 60, transport="ndjson")
    assert ("read.limit", "event 1", 2) in places
