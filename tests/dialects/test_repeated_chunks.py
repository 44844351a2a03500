"""Chunks that repeat the last one but for their text: reading them must not make a difference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects import pipeline
from penstock.dialects.chat import DIALECT
from penstock.dialects.pipeline import Pipeline
from penstock.dialects.repeated_chunks import RepeatedChunk
from penstock.protocol.response import response_for
from penstock.protocol.wire import encode
from penstock.sse import Frame
from penstock.stream.machine import ResponseStreamStateMachine
from tests.dialects.chat_streams import chunk, plan

KEY = '"content":'


def opened() -> Pipeline:
    response = response_for(plan().request, id="resp_1", created_at=0)
    made = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0, new_id=_ids()))
    made.open(DIALECT, plan())
    return made


def _ids() -> Any:
    numbers = iter(range(10**6))
    return lambda prefix: f"{prefix}_{next(numbers)}"


def translated(*reads: bytes) -> list[bytes]:
    fed = opened()
    events = [event for read in reads for event in fed.feed(read)]
    return [encode(event) for event in events + fed.end()]


TEXTS = st.sampled_from(
    [
        "a",
        " b",
        "ü",
        "水",
        '"',
        "\\",
        "\n",
        "\u0000",
        "",
        "\ud800",
        "</s>",
        '","content":"x',
        "\x7f",
        "data: x",
    ]
) | st.text(max_size=4)


def filtered(text: str) -> Any:
    """A chunk with the same key in another place."""
    choice = {"index": 0, "delta": {"content": "A"}, "content_filter_results": {"content": text}}
    return {"id": "c", "choices": [choice]}


@st.composite
def reads_of_a_stream(draw: st.DrawFn) -> list[bytes]:
    """Chunks with few differences, written in various ways, in reads that mostly hold one each."""
    reads = []
    for text in draw(st.lists(TEXTS, min_size=2, max_size=8)):
        made = chunk({"content": text}, id=draw(st.sampled_from(["c", "c", "c", "d"])))
        if draw(st.integers(0, 9)) == 0:
            made = draw(
                st.sampled_from(
                    [
                        chunk({"reasoning_content": "hm"}),
                        chunk({"content": text, "reasoning_content": "hm"}),
                        chunk({"content": text}, finish="stop"),
                        {**made, "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
                        {
                            "choices": [
                                {
                                    "index": 0,
                                    "delta": {"content": "A"},
                                    "content_filter_results": {"content": text},
                                }
                            ]
                        },
                    ]
                )
            )
        separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")]))
        data = json.dumps(made, separators=separators, ensure_ascii=draw(st.booleans()))
        end = draw(st.sampled_from(["\n\n", "\n\n", "\n\n", "\r\n\r\n"]))
        reads.append(f"data: {data}{end}".encode("utf-8", "surrogatepass"))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(reads) - 1))
        cut = draw(st.integers(0, len(reads[place])))
        reads[place : place + 1] = [reads[place][:cut], reads[place][cut:]]
    return reads


class NeverRepeated(RepeatedChunk):
    def text_in(self, data: bytes) -> None:  # noqa: ARG002
        return None

    def text_of(self, frame: Frame) -> None:  # noqa: ARG002
        return None


@given(reads_of_a_stream())
def test_recognising_repeated_chunks_makes_no_difference(reads: list[bytes]) -> None:
    """Whether every chunk is a read of its own, or all arrive at once."""
    reads.append(b"data: [DONE]\n\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "RepeatedChunk", NeverRepeated)
        expected = translated(*reads)
    assert translated(*reads) == expected
    assert translated(b"".join(reads)) == expected


def sse(text: str, **fields: Any) -> bytes:
    return f"data: {json.dumps(chunk({'content': text}, **fields))}\n\n".encode()


def framed(data: bytes, event: str | None = None) -> Frame:
    text = data.decode("utf-8", "replace")
    return Frame(event, text.removeprefix("data: ").removesuffix("\n\n"))


def learned(data: bytes, text: str) -> RepeatedChunk:
    repeated = RepeatedChunk()
    repeated.learn(framed(data), KEY, text)
    repeated.learn_read(data, framed(data))
    return repeated


def test_a_chunk_with_another_text_is_recognised() -> None:
    repeated = learned(sse("a"), "a")
    for text in ("some more", "a", "ü", '"', "\\", "\n", '","content":"x'):
        data = sse(text)
        assert repeated.text_in(data) == text
        assert repeated.text_of(framed(data)) == text


@pytest.mark.parametrize(
    "data",
    [
        sse(""),
        sse("a", id="other"),
        sse("a", finish="stop"),
        sse("a")[:-1],
        sse("a") + sse("b"),
        sse("a").replace(b'"a"', b'"\xff"'),
        sse("a").replace(b'"a"', b'"\x01"'),
        b"",
    ],
)
def test_anything_else_is_not(data: bytes) -> None:
    repeated = learned(sse("a"), "a")
    assert repeated.text_in(data) is None
    if data != sse("a")[:-1] and b"\xff" not in data:  # a frame of these is a repeated one
        assert repeated.text_of(framed(data)) is None


def test_a_frame_with_another_name_is_not() -> None:
    assert learned(sse("a"), "a").text_of(framed(sse("a"), "error")) is None


def test_a_frame_that_was_not_a_read_of_its_own_is_recognised_only_as_a_frame() -> None:
    repeated = RepeatedChunk()
    repeated.learn(framed(sse("a")), KEY, "a")
    repeated.learn_read(sse("a")[5:], framed(sse("a")))
    assert repeated.text_of(framed(sse("b"))) == "b"
    assert repeated.text_in(sse("b")) is None


@pytest.mark.parametrize(
    "data",
    [
        sse("b"),
        sse("a").replace(b"}]", b'},{"content":"a"}]'),
    ],
    ids=["with another text", "with the key twice"],
)
def test_a_chunk_whose_text_is_not_found_without_doubt_is_not_learned(data: bytes) -> None:
    repeated = learned(data, "a")
    assert repeated.text_in(data) is None
    assert repeated.text_of(framed(data)) is None


@pytest.mark.parametrize(
    "data", [sse("a") + b"data: {", sse("a")[3:]], ids=["with the next chunk", "without its beginning"]
)
def test_a_read_that_is_not_just_a_frame_is_not_learned(data: bytes) -> None:
    repeated = RepeatedChunk()
    repeated.learn(framed(sse("a")), KEY, "a")
    repeated.learn_read(data, framed(sse("a")))
    assert repeated.text_in(data) is None


def test_a_stream_that_never_repeats_a_chunk_is_not_tried_forever() -> None:
    repeated = RepeatedChunk()
    for number in range(10):
        data = sse("a", id=str(number))
        assert repeated.text_of(framed(data)) is None
        repeated.learn(framed(data), KEY, "a")
    assert repeated.text_of(framed(data)) is None


def test_a_forgotten_chunk_is_not_recognised() -> None:
    repeated = learned(sse("a"), "a")
    repeated.forget_reads()
    assert repeated.text_in(sse("a")) is None
    assert repeated.text_of(framed(sse("a"))) == "a"
    repeated.forget()
    assert repeated.text_of(framed(sse("a"))) is None
