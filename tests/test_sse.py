"""Server-sent events: frames do not depend on how the input is split, and written frames are read back."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import FrameTooLarge, PenstockError
from penstock.sse import (
    DEFAULT_LIMIT,
    DONE,
    Decoder,
    Frame,
    comment,
    encode_frame,
    frame_in_pieces,
    is_event_stream,
    without_blanks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RECORDINGS = Path(__file__).resolve().parents[2] / "shared" / "recordings"
BOM = b"\xef\xbb\xbf"
untimed = settings(deadline=None)  # a busy machine must not fail the test


def decode(pieces: Iterable[bytes], limit: int = DEFAULT_LIMIT) -> list[Frame]:
    decoder = Decoder(limit)
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return frames + decoder.end()


def byte_by_byte(data: bytes) -> Iterator[bytes]:
    return (data[position : position + 1] for position in range(len(data)))


def reference(data: bytes) -> list[Frame]:
    """The algorithm of the standard, literally, on text: slow, but obviously correct."""
    text = data.decode("utf-8", "replace")
    text = text[1:] if text.startswith("\ufeff") else text
    frames: list[Frame] = []
    data_buffer, event_buffer, last_id, retry = "", "", "", None
    for line in [*re.split("\r\n|\r|\n", text), ""]:
        if line == "":
            if data_buffer != "":
                frames.append(Frame(event_buffer or None, data_buffer[:-1], last_id or None, retry))
                retry = None
            data_buffer = event_buffer = ""
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if field == "event":
            event_buffer = value
        elif field == "data":
            data_buffer += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", value):
            retry = int(value)
    return frames


CASES: dict[str, tuple[bytes, list[Frame]]] = {
    "nothing": (b"", []),
    "blank lines only": (b"\n\r\n\r\n\n", []),
    "one frame": (b'event: a\ndata: {"x":1}\n\n', [Frame("a", '{"x":1}')]),
    "no event name": (b"data: x\n\n", [Frame(None, "x")]),
    "empty event name": (b"event:\ndata: x\n\n", [Frame(None, "x")]),
    "event name after the data": (b"data: x\nevent: a\n\n", [Frame("a", "x")]),
    "the last event name counts": (b"event: a\nevent: b\ndata: x\n\n", [Frame("b", "x")]),
    "CRLF": (b"event: a\r\ndata: x\r\n\r\n", [Frame("a", "x")]),
    "CR": (b"event: a\rdata: x\r\r", [Frame("a", "x")]),
    "mixed line ends": (
        b"event: a\r\ndata: x\rdata: y\n\r\ndata: z\r\n\n",
        [Frame("a", "x\ny"), Frame(None, "z")],
    ),
    "LF CR is two line ends": (b"data: x\n\rdata: y\n\n", [Frame(None, "x"), Frame(None, "y")]),
    "BOM": (BOM + b"data: x\n\n", [Frame(None, "x")]),
    "only the first BOM is skipped": (BOM + BOM + b"data: x\n\ndata: y\n\n", [Frame(None, "y")]),
    "a BOM after a blank line is text": (b"\n" + BOM + b"data: x\n\n", []),
    "a BOM after two blank lines is text": (b"\n\n" + BOM + b"data: x\n\n", []),
    "comments": (b": hello\n\n:\ndata: x\n:: y\n\n", [Frame(None, "x")]),
    "several data lines": (b"data: x\ndata:\ndata: y\n\n", [Frame(None, "x\n\ny")]),
    "no space after the colon": (b"event:a\ndata:x\n\n", [Frame("a", "x")]),
    "only one space is removed": (b"event:  a\ndata:  x \n\n", [Frame(" a", " x ")]),
    "no space at the end is removed": (b"event:a \ndata:x \nid:  7\n\n", [Frame("a ", "x ", id=" 7")]),
    "a field without a colon": (b"data\n\n", [Frame(None, "")]),
    "empty data is data": (b"data:\n\n", [Frame(None, "")]),
    "colons in the data": (b"data: a:b: c\n\n", [Frame(None, "a:b: c")]),
    "unknown fields": (b"x: y\ndatum: z\ndata: x\n Data: y\n\n", [Frame(None, "x")]),
    "no data, no frame": (b"event: ping\n\nevent: pong\n\ndata: x\n\n", [Frame(None, "x")]),
    "id": (b"id: 7\ndata: x\n\n", [Frame(None, "x", id="7")]),
    "an id applies until the next one": (
        b"id: 7\n\ndata: x\n\ndata: y\nid: 8\n\nid\ndata: z\n\n",
        [Frame(None, "x", id="7"), Frame(None, "y", id="8"), Frame(None, "z")],
    ),
    "an id with NUL is ignored": (b"id: 7\nid: 8\0\ndata: x\n\n", [Frame(None, "x", id="7")]),
    "retry": (b"retry: 250\n\ndata: x\n\ndata: y\n\n", [Frame(None, "x", retry=250), Frame(None, "y")]),
    "retry that is not a number": (
        b"retry: 1s\nretry: -1\nretry:\nretry: \xc2\xb2\ndata: x\n\n",
        [Frame(None, "x")],
    ),
    "retry with too many digits": (b"retry: " + b"9" * 5000 + b"\ndata: x\n\n", [Frame(None, "x")]),
    "no blank line at the end": (b"data: x\n\nevent: a\ndata: y\n", [Frame(None, "x"), Frame("a", "y")]),
    "no line end at the end": (b"data: x\n\ndata: y", [Frame(None, "x"), Frame(None, "y")]),
    "no data at the end": (b"data: x\n\nevent: y\n", [Frame(None, "x")]),
    "CR at the end": (b"data: x\r", [Frame(None, "x")]),
    "CJK and emoji": (
        'event: 名\ndata: {"delta":"水門 🌊"}\n\n'.encode(),
        [Frame("名", '{"delta":"水門 🌊"}')],
    ),
    "Unicode line separators do not end a line": (
        "data: a\u2028b\u0085c\x0bd\n\n".encode(),
        [Frame(None, "a\u2028b\u0085c\x0bd")],
    ),
    "bytes that are not UTF-8": (b"data: \xff\xe6\xb0\n\n", [Frame(None, "\ufffd\ufffd")]),
    "[DONE]": (DONE, [Frame(None, "[DONE]")]),
}


@pytest.mark.parametrize(("data", "frames"), CASES.values(), ids=CASES.keys())
def test_a_stream_is_read_as_the_standard_requires(data: bytes, frames: list[Frame]) -> None:
    assert reference(data) == frames
    assert decode([data]) == frames
    assert decode(byte_by_byte(data)) == frames


def test_a_frame_is_returned_by_the_read_that_completes_it() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: x\n") == []
    assert decoder.feed(b"\n") == [Frame(None, "x")]
    assert decoder.feed(b"data: y\r\n\r") == [Frame(None, "y")]
    assert decoder.feed(b"\ndata: z\r") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\r\n") == [Frame(None, "z")]
    assert decoder.end() == []


def test_an_empty_read_changes_nothing() -> None:
    assert decode([b"", b"data: x\r", b"", b"\ndata: y\n\n", b""]) == [Frame(None, "x\ny")]


def test_the_last_event_is_returned_once() -> None:
    decoder = Decoder()
    decoder.feed(b"data: x")
    assert decoder.end() == [Frame(None, "x")]
    assert decoder.end() == []


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
values = st.one_of(
    st.sampled_from(["", " ", "x", "{}", "7", "水門 🌊", "a:b", "\ufeff", "\0"]).map(str.encode),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=6),
)
lines = st.one_of(
    st.just(b""),
    st.builds(
        lambda name, colon, value: name + colon + value if colon else name,
        st.sampled_from([b"data", b"event", b"id", b"retry", b"", b"x", "名".encode()]),
        st.sampled_from([b": ", b":", b""]),
        values,
    ),
    st.binary(max_size=6),
)
streams = st.one_of(
    st.builds(
        lambda bom, pairs, last: bom + b"".join(line + end for line, end in pairs) + last,
        st.sampled_from([b"", BOM]),
        st.lists(st.tuples(lines, line_ends), max_size=24),
        lines,
    ),
    st.lists(st.sampled_from([b"\n", b"\r", b"data: x", b"data", b":", BOM, b"\xe6"]), max_size=16).map(
        b"".join
    ),
    st.binary(max_size=64),
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return data, [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@untimed
@given(cut_streams())
@example((b"data: x\n\n\ndata: y\n\n", [b"data: x\n\n", b"\ndata: y\n\n"]))
def test_any_split_of_a_stream_gives_the_same_frames(cut: tuple[bytes, list[bytes]]) -> None:
    data, pieces = cut
    expected = reference(data)
    assert decode([data]) == expected
    assert decode(pieces) == expected
    assert decode(byte_by_byte(data)) == expected


def frames_and_whether_it_overflowed(pieces: Iterable[bytes], limit: int) -> tuple[list[Frame], bool]:
    decoder, frames = Decoder(limit), []
    try:
        for piece in pieces:
            frames += decoder.feed(piece)
        frames += decoder.end()
    except FrameTooLarge:
        return frames, True
    return frames, False


@untimed
@given(cut_streams(), st.integers(1, 40))
@example((b"\ndata: x\n\n", [b"\ndata: x", b"\n\n"]), 7)
@example((b"\ndata: x\n\n", [b"\ndata: x", b"\n\n"]), 6)
def test_any_split_of_a_stream_exceeds_the_limit_at_the_same_event(
    cut: tuple[bytes, list[bytes]], limit: int
) -> None:
    data, pieces = cut
    found = frames_and_whether_it_overflowed([data], limit)
    assert frames_and_whether_it_overflowed(pieces, limit) == found
    assert frames_and_whether_it_overflowed(byte_by_byte(data), limit) == found
    events = re.split(b"\n\n+", re.sub(b"\r\n|\r", b"\n", data).strip(b"\n"))
    assert found[1] == any(len(event) > limit for event in events)


READS = [
    *(b"data: 1\n\n", b"data: caf\xc3\xa9\n\n", b"data: \n\n", b"data: \xe2\x82\n\n", b"data:2\n\n"),
    *(b"event: a\ndata: 3\n\n", b"event: b\ndata: 4\n\n"),
    *(b"event: \xff\ndata: 5\n\n", b"event: \ndata: 6\n\n"),
    *(b"data: 7\r\n\r\n", b"data: 8\r\r", b"data: 9\ndata: 10\n\n", b"event: a\ndata: 11\nid: x\n\n"),
    *(b"event: a\n\n", b": comment\n\n", b"id: y\nretry: 5\n\n", b"data: 12\n", b"\n", b"\r", BOM),
    *(b"data: 13\rdata: 14\n\n", b"data: 15\n\n\n", b"data: 16\n\ndata: 17\n\n"),
]


@given(st.lists(st.sampled_from(READS), max_size=12))
@settings(max_examples=500, deadline=None)
def test_events_that_arrive_one_by_one_are_read_as_the_standard_requires(reads: list[bytes]) -> None:
    assert decode(reads) == reference(b"".join(reads))


@untimed
@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    assert decode([data]) == reference(data)


one_line = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)


@untimed
@given(st.lists(st.tuples(one_line.filter(bool), one_line, one_line), max_size=6), st.randoms())
def test_written_frames_are_read_back(frames: list[tuple[str, str, str]], dice: random.Random) -> None:
    written = (
        b"".join(encode_frame(event, data.encode()) + comment(text) for event, data, text in frames) + DONE
    )
    cuts = sorted(dice.randrange(len(written)) for _ in range(5))
    pieces = [written[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    assert decode(pieces) == [*(Frame(event, data) for event, data, _ in frames), Frame(None, "[DONE]")]


def test_a_written_frame_is_two_lines_and_a_blank_one() -> None:
    data = msgspec.json.encode({"type": "a", "delta": "line\r\nline\u2028"})
    assert encode_frame("a", data) == b'event: a\ndata: {"type":"a","delta":"line\\r\\nline\xe2\x80\xa8"}\n\n'
    assert comment("ping") == b": ping\n\n"
    assert comment() == b": \n\n"


@pytest.mark.parametrize("event", ["", "a\nb", "a\rb", "a\r\n"])
def test_an_event_name_that_would_break_the_frame_is_refused(event: str) -> None:
    with pytest.raises(ValueError, match="event name"):
        encode_frame(event, b"{}")


@pytest.mark.parametrize("data", [b"{\n}", b"{}\r", b"\n"])
def test_data_of_more_than_one_line_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        encode_frame("a", data)


@pytest.mark.parametrize("text", ["a\ndata: x", "a\rb"])
def test_a_comment_cannot_inject_a_field(text: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        comment(text)


def test_an_endless_line_is_refused_at_the_limit() -> None:  # ask A9
    decoder = Decoder(limit=1_000_000)
    for _ in range(1000):
        assert decoder.feed(b"x" * 1000) == []
    with pytest.raises(FrameTooLarge, match="1000000") as caught:
        decoder.feed(b"x")
    assert caught.value.limit == 1_000_000
    assert isinstance(caught.value, PenstockError)


def test_a_line_of_20_mb_in_one_read_is_refused_too() -> None:
    with pytest.raises(FrameTooLarge):
        Decoder(limit=1_000_000).feed(b"data: " + b"x" * 20_000_000)


def test_a_line_of_20_mb_passes_under_the_default_limit() -> None:
    chunk = b"x" * 20_000
    (frame,) = decode([b"data: ", *([chunk] * 1000), b"\n\n"])
    assert len(frame.data) == 20_000_000


def test_many_short_lines_of_one_event_count_together() -> None:
    decoder = Decoder(limit=800)
    for _ in range(100):
        assert decoder.feed(b"data: x\n") == []
    with pytest.raises(FrameTooLarge):
        decoder.feed(b"data: x\n")


def test_the_limit_applies_to_one_event_not_to_the_stream() -> None:
    frame = b"data: " + b"x" * 94
    assert len(decode([(frame + b"\r\n\r\n") * 1000], limit=100)) == 1000
    assert len(decode([frame + b"\n\n", frame + b"\n", b"\n" + frame], limit=100)) == 3
    with pytest.raises(FrameTooLarge):
        decode([frame + b"\n\n"], limit=99)


def test_frames_before_an_oversized_event_are_not_lost() -> None:
    decoder = Decoder(limit=10)
    frames = decoder.feed(b"data: x\n\ndata: y\n\ndata: too long\n\ndata: z\n\n")
    assert frames == [Frame(None, "x"), Frame(None, "y")]
    with pytest.raises(FrameTooLarge):
        decoder.end()


def test_after_an_oversized_event_every_call_raises() -> None:
    decoder = Decoder(limit=10)
    for data in (b"data: too long", b"\n\ndata: x\n\n", b""):
        with pytest.raises(FrameTooLarge):
            decoder.feed(data)
    with pytest.raises(FrameTooLarge):
        decoder.end()


@pytest.mark.e2e
@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not part of the repository")
def test_recorded_streams_give_the_same_frames_in_any_split() -> None:
    recordings = sorted(RECORDINGS.rglob("*.sse"))
    assert recordings
    for recording in recordings:
        data = recording.read_bytes()
        frames = decode([data])
        assert frames == reference(data), recording.name
        assert decode(small_pieces(data, random.Random(recording.name))) == frames, recording.name


def small_pieces(data: bytes, dice: random.Random) -> Iterator[bytes]:
    """The first two thousand bytes one by one, the rest a few at a time: many splits, but fast."""
    position = 0
    while position < len(data):
        size = 1 if position < 2000 else dice.randint(1, 60)
        yield data[position : position + size]
        position += size


def test_a_frame_in_pieces_is_the_same_frame() -> None:
    data = b'{"type":"a"}'
    assert b"".join(frame_in_pieces("a", [data[:3], b"", data[3:]])) == encode_frame("a", data)


def test_an_event_stream_is_recognised_by_its_first_bytes() -> None:
    for head in (b"data: {}", b"event: x", b": hello", b"id: 1", b"retry: 1"):
        assert is_event_stream(head) is True
    for head in (b"", b"d", b"dat", b"event", b"\xef\xbb"):
        assert is_event_stream(head) is None
    for head in (b"<html>", b"{", b"OK", b"database"):
        assert is_event_stream(head) is False
    assert without_blanks(b"\r\n\xef\xbb\xbf \ndata: 1\n\n") == b"data: 1\n\n"
