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

KEY = b'"content":'


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
    for text in draw(st.lists(TEXTS, min_size=2, max_size=16)):
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

    def texts_in(self, data: bytes, begin: int) -> tuple[list[str], int]:  # noqa: ARG002
        return [], begin


def assert_nothing_differs(reads: list[bytes]) -> None:
    """Check that recognising chunks makes no difference, whether every chunk is a read of its own or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "RepeatedChunk", NeverRepeated)
        expected = translated(*reads)
    assert translated(*reads) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_LONG_READ", 0)
        assert translated(b"".join(reads)) == expected
        assert translated(*reads) == expected


@given(reads_of_a_stream())
def test_recognising_repeated_chunks_makes_no_difference(reads: list[bytes]) -> None:
    assert_nothing_differs([*reads, b"data: [DONE]\n\n"])


@pytest.mark.parametrize(
    "other",
    [
        {"reasoning_content": "hm"},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc", "id": "r", "index": 0}]},
        {"tool_calls": [{"index": 0, "id": "call", "function": {"name": "f", "arguments": "{}"}}]},
        {"content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.b"}}]},
        {"refusal": "no"},
        {},
    ],
)
def test_a_chunk_after_another_one_is_decoded_again(other: Any) -> None:
    same = [sse(text) for text in ("a", "b", "c")]
    between = f"data: {json.dumps(chunk(other))}\n\n".encode()
    assert_nothing_differs([*same, between, *same, b"data: [DONE]\n\n"])


def sse(text: str, **fields: Any) -> bytes:
    return f"data: {json.dumps(chunk({'content': text}, **fields))}\n\n".encode()


def learned(data: bytes, text: str) -> RepeatedChunk:
    repeated = RepeatedChunk()
    repeated.learn(data, Frame(None, data.decode().removeprefix("data: ").removesuffix("\n\n")), KEY, text)
    return repeated


TEXT = ("some more", "a", "ü", '"', "\\", "\n", '","content":"x', "\n\n")


def test_a_chunk_with_another_text_is_recognised() -> None:
    repeated = learned(sse("a"), "a")
    for text in TEXT:
        assert repeated.text_in(sse(text)) == text


def test_many_chunks_with_other_texts_are_recognised_up_to_another_chunk() -> None:
    repeated, same = learned(sse("a"), "a"), b"".join(map(sse, TEXT))
    for cut in range(len(sse("a"))):
        assert repeated.texts_in(same + sse("a")[:cut], 0) == (list(TEXT), len(same))
    for other in (sse("a")[:-1], sse("a", id="other"), sse(""), b": comment\n\n", b"\n" + sse("a")):
        assert repeated.texts_in(b"before" + same + other + same, 6) == (list(TEXT), 6 + len(same))
    assert repeated.texts_in(same, 1) == ([], 1)


def test_chunks_are_recognised_some_at_a_time() -> None:
    repeated, data, texts, begin = learned(sse("a"), "a"), sse("word") * 1000, 0, 0
    while begin < len(data):
        found, end = repeated.texts_in(data, begin)
        assert 0 < len(found) < 200
        assert end == begin + len(found) * len(sse("word"))
        texts, begin = texts + len(found), end
    assert texts == 1000


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
        sse("a").replace(b'"a"', b'\n"a"'),
        sse("a").replace(b'"a"', b'"a"\r\n\r\n'),
        b"",
    ],
)
def test_anything_else_is_not(data: bytes) -> None:
    assert learned(sse("a"), "a").text_in(data) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (sse("a") + b"data: {", "a"),
        (sse("a")[3:], "a"),
        (sse("b"), "a"),
        (sse("a").replace(b"}]", b'},{"content":"a"}]'), "a"),
    ],
    ids=["with the next chunk", "without its beginning", "with another text", "with the key twice"],
)
def test_a_chunk_whose_text_is_not_found_without_doubt_is_not_learned(data: bytes, text: str) -> None:
    assert learned(data, text).text_in(data) is None


def test_a_long_chunk_is_not_learned() -> None:
    """The next ones are probably as long, and to search their text would take time."""
    text = "x" * 10_000
    assert learned(sse(text), text).text_in(sse("a")) is None


def test_a_stream_that_never_repeats_a_chunk_is_not_tried_forever() -> None:
    repeated = RepeatedChunk()
    for number in range(10):
        data = sse("a", id=str(number))
        frame = Frame(None, data.decode().removeprefix("data: ").removesuffix("\n\n"))
        assert repeated.text_in(data) is None
        repeated.learn(data, frame, KEY, "a")
        repeated.forget()
    repeated.learn(data, frame, KEY, "a")
    assert repeated.text_in(data) is None


def test_a_forgotten_chunk_is_not_recognised() -> None:
    repeated = learned(sse("a"), "a")
    repeated.forget()
    assert repeated.text_in(sse("a")) is None
    assert repeated.texts_in(sse("a"), 0) == ([], 0)
