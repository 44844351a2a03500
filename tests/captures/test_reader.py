"""Detecting server-sent events, NDJSON and arrays, whatever the size of the reads."""

from __future__ import annotations

import pytest

from penstock.captures.reader import Array, Capture, Lines, NumberedFrames, OneDocument
from penstock.errors import FrameTooLarge
from penstock.sse import Frame

A, B = Frame(None, '{"a":1}'), Frame(None, '{"b":2}')

CASES = {
    "server-sent events": (b'data: {"a":1}\n\ndata: {"b":2}\n\n', "sse", [A, B]),
    "with a BOM": (b'\xef\xbb\xbfdata: {"a":1}\n\n', "sse", [A]),
    "a comment first": (b': hi\n\ndata: {"a":1}\n\n', "sse", [A]),
    "blank lines first": (b'\r\n\n\ndata: {"a":1}\n\n', "sse", [A]),
    "lines": (b'{"a":1}\n{"b":2}\n', "ndjson", [A, B]),
    "lines with a BOM": (b'\xef\xbb\xbf{"a":1}\n{"b":2}', "ndjson", [A, B]),
    "lines with CRLF, indentation and blanks": (b'\n  {"a":1}\r\n\r\n{"b":2} \r\n\n', "ndjson", [A, B]),
    "a space after the brace": (b'{ "a":1}\n', "ndjson", [Frame(None, '{ "a":1}')]),
    "only the sentinel": (b"[DONE]\n", "ndjson", [Frame(None, "[DONE]")]),
    "half a sentinel": (b"[DO", "ndjson", [Frame(None, "[DO")]),
    "only a brace": (b"{", "ndjson", [Frame(None, "{")]),
    "nothing": (b"", "sse", []),
    "nothing but blanks": (b" \n\n", "sse", []),
}


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("data", "transport", "frames"), CASES.values(), ids=CASES.keys())
def test_the_transport_is_detected_from_the_first_bytes(
    data: bytes, transport: str, frames: list[Frame], size: int
) -> None:
    capture = Capture()
    found = [
        frame for start in range(0, len(data), size) for frame in capture.feed(data[start : start + size])
    ]
    assert found + capture.end() == frames
    assert capture.transport == transport


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "data", [b'{\n  "a": 1\n}', b'{ \r\n"a": 1}', b'[{"a": 1}]', b'\xef\xbb\xbf[\n{"a": 1}]']
)
def test_one_json_document_is_not_a_stream(data: bytes, size: int) -> None:
    capture = Capture()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    with pytest.raises(OneDocument, match="one JSON document"):
        list(map(capture.feed, pieces))


ARRAYS = {
    "members": (b'[{"a":1},{"b":2}]', [A, B]),
    "as it is laid out": (b'\xef\xbb\xbf\n[{"a":1}\n,\r\n{"b":2}\n]\n', [A, B]),
    "brackets and quotes in texts": (b'[{"a":"]},{\\""},{"b":2}]', [Frame(None, '{"a":"]},{\\""}'), B]),
    "members in members": (b'[{"a":[{"b":[]}]}]', [Frame(None, '{"a":[{"b":[]}]}')]),
    "not closed": (b'[{"a":1},{"b":2}', [A, B]),
    "cut between members": (b'[{"a":1},\n', [A]),
    "cut in a member": (b'[{"a":1},{"b":[2', [A, Frame(None, '{"b":[2')]),
    "cut in a text": (b'[{"a":1},{"b":"\\', [A, Frame(None, '{"b":"\\')]),
    "members that are no objects": (b'[{"a":1}, 2, 3]', [A, Frame(None, "2, 3]")]),
    "nothing in it": (b"[]", []),
    "only its beginning": (b"[", [Frame(None, "[")]),
}


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("data", "frames"), ARRAYS.values(), ids=ARRAYS.keys())
def test_an_array_is_a_stream_if_arrays_are_allowed(data: bytes, frames: list[Frame], size: int) -> None:
    capture = Capture(arrays=True)
    found = [
        frame for start in range(0, len(data), size) for frame in capture.feed(data[start : start + size])
    ]
    assert found + capture.end() == frames


def test_a_member_is_returned_as_soon_as_it_is_complete() -> None:
    capture = Capture(arrays=True)
    assert capture.feed(b'[{"a":1') == []
    assert capture.feed(b'}, {"b"') == [A]
    assert capture.feed(b":2}") == [B]


def test_a_member_over_the_limit_is_refused() -> None:
    array = Array(limit=10)
    assert array.feed(b'[{"a":1},{"b"') == [A]
    with pytest.raises(FrameTooLarge):
        array.feed(b":2222222")


def test_a_frame_is_returned_as_soon_as_its_line_ends() -> None:
    capture = Capture()
    assert capture.feed(b'{"a":') == []
    assert capture.feed(b'1}\n{"b"') == [A]
    assert capture.end() == [Frame(None, '{"b"')]


def test_a_given_transport_is_not_detected() -> None:
    assert Capture("websocket").feed(b'data: x\n{"a":1}\n') == [Frame(None, "data: x"), A]
    assert Capture("sse").feed(b'{"a":1}\n\n') == []


def test_a_line_over_the_limit_is_refused() -> None:
    lines = Lines(limit=10)
    assert lines.feed(b'{"a":1}\n{"b"') == [A]
    with pytest.raises(FrameTooLarge):
        lines.feed(b":2222222}")


NUMBERED = {
    "server-sent events": (b"data: a\n\ndata: b\n\n", [1, 3]),
    "with names and comments": (b": hi\nevent: x\ndata: a\n\n\nid: 1\nevent: y\ndata: b\n\n", [1, 6]),
    "a comment of its own": (b": ping\n\n: ping\n\ndata: a\n\n", [5]),
    "an event without data": (b"event: x\n\nevent: y\ndata: a\n\n", [3]),
    "several data lines": (b"data: a\ndata: b\n\ndata: c\n\n", [1, 4]),
    "CRLF": (b"\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [2, 4]),
    "only CR, which is one line for editors": (b"data: a\r\rdata: b\r\r", [1, 1]),
    "a BOM on its own line": (b"\xef\xbb\xbf\ndata: a\n\n", [2]),
    "a last event without its blank line": (b"data: a\n\ndata: b", [1, 3]),
    "lines": (b'{"a":1}\n{"b":2}\n\n \n  {"c":3}', [1, 2, 5]),
    "a line that is only a blank before an event": (b"\n \ndata: a\n\n", [3]),
    "the first bytes reveal nothing": (b"\n\n[DO", [3]),
}


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("data", "lines"), NUMBERED.values(), ids=NUMBERED.keys())
def test_frames_are_numbered_by_the_line_on_which_they_begin(
    data: bytes, lines: list[int], size: int
) -> None:
    frames = NumberedFrames(Capture())
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    found = [each for piece in pieces for each in frames.feed(piece)] + frames.end()
    assert [line for line, _ in found] == lines
    assert frames.line == lines[-1]
    whole = Capture()
    assert [frame for _, frame in found] == whole.feed(data) + whole.end()


def test_the_line_of_an_oversized_event_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.captures.reader.Lines.__init__.__defaults__", (20,))
    frames = NumberedFrames(Capture("ndjson"))
    assert frames.feed(b'\n{"a":1}\n\n' + b"x" * 30) == [(2, A)]
    with pytest.raises(FrameTooLarge):
        frames.feed(b"x\n")
    with pytest.raises(FrameTooLarge):
        frames.end()
    assert frames.line == 4
