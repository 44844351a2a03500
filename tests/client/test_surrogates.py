"""Surrogate pairs that a server has split, because it counts text in UTF-16 units."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.surrogates import SurrogateJoiner
from penstock.protocol.events import OutputTextDeltaEvent, OutputTextDoneEvent
from tests.client.asking import REQUEST, asking
from tests.client.server import HELLO, head, run, send, sse, streamed

HIGH, LOW = "\ud83d", "\ude00"


def delta(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "delta": text, **fields}


def joined(*raws: dict[str, Any]) -> list[str]:
    joiner = SurrogateJoiner()
    return [joiner.join(raw)["delta"] for raw in raws]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["a" + HIGH, LOW + "b"], ["a", "😀b"]),
        ([HIGH, LOW], ["", "😀"]),
        ([HIGH, "", LOW], ["", "", "😀"]),
        ([HIGH, LOW + HIGH, LOW], ["", "😀", "😀"]),
        ([HIGH, "b"], ["", "\ufffdb"]),
        ([HIGH, HIGH, LOW], ["", "\ufffd", "😀"]),
        ([LOW + "a"], ["\ufffda"]),
        (["a" + HIGH + "b"], ["a\ufffdb"]),
        ([HIGH + LOW], ["😀"]),
    ],
)
def test_surrogates_are_joined_across_deltas(parts: list[str], expected: list[str]) -> None:
    assert joined(*map(delta, parts)) == expected


def test_surrogates_of_different_texts_are_not_joined() -> None:
    raws = [
        delta(HIGH, item_id="msg_1", content_index=0),
        delta(HIGH, item_id="msg_1", content_index=1),
        delta(HIGH, item_id="msg_2"),
        {**delta("{}"), "type": "response.function_call_arguments.delta"},
        delta(LOW, item_id="msg_1", content_index=1),
        delta("x", item_id="msg_2"),
        delta(LOW, item_id="msg_1", content_index=0),
    ]
    assert joined(*raws) == ["", "", "", "{}", "😀", "\ufffdx", "😀"]


def test_surrogates_outside_deltas_are_joined_in_place() -> None:
    raw = {"type": "x.done", HIGH: 1, "text": HIGH + LOW + HIGH, "parts": [{"text": LOW}, 1, None]}
    assert SurrogateJoiner().join(raw) == {
        "type": "x.done",
        "\ufffd": 1,
        "text": "😀\ufffd",
        "parts": [{"text": "\ufffd"}, 1, None],
    }
    assert SurrogateJoiner().join({"type": "x.delta", "delta": {"text": HIGH}}) == {
        "type": "x.delta",
        "delta": {"text": "\ufffd"},
    }
    assert SurrogateJoiner().join([HIGH]) == ["\ufffd"]


def test_pending_surrogates_are_bounded() -> None:
    joiner = SurrogateJoiner()
    for number in range(1000):
        joiner.join(delta(HIGH, item_id=f"msg_{number}", output_index=["no", "index"]))
    assert len(joiner) == 64
    assert joiner.join(delta(LOW, item_id="msg_999", output_index=["no", "index"]))["delta"] == "😀"


@given(st.text(), st.lists(st.integers(0, 40)))
def test_a_text_that_is_split_anywhere_is_the_same_text(text: str, cuts: list[int]) -> None:
    units = text.encode("utf-16-le")
    edges = sorted({0, len(units), *(2 * cut for cut in cuts if 2 * cut < len(units))})
    pieces = [units[start:end].decode("utf-16-le", "surrogatepass") for start, end in pairwise(edges)]
    assert "".join(joined(*map(delta, pieces))) == text


CUT = [
    *HELLO[:4],
    {**HELLO[4], "delta": "up " + HIGH},
    {**HELLO[5], "delta": LOW + "!"},
    HELLO[6],
    {**HELLO[7], "text": f"up {HIGH}{LOW}!{HIGH}"},
    *HELLO[8:],
]


def test_a_stream_with_split_characters_loses_none() -> None:
    async def main() -> None:
        async with asking(streamed(CUT)) as (client, _):
            stream = client.stream(REQUEST)
            received = [event async for event in stream]
            assert (len(received), stream.skipped) == (11, 0)
            deltas = [event.delta for event in received if isinstance(event, OutputTextDeltaEvent)]
            assert deltas[:2] == ["up ", "😀!"]
            (done,) = [event for event in received if isinstance(event, OutputTextDoneEvent)]
            assert done.text == "up 😀!\ufffd"

    assert [HELLO[4]["type"], HELLO[5]["type"]] == ["response.output_text.delta"] * 2
    assert "\\ud83d" in json.dumps(CUT)
    run(main())


def test_surrogates_are_joined_across_connections() -> None:
    async def main() -> None:
        async with asking([send(head() + sse(CUT[:5]))], streamed(CUT[5:])) as (client, _):
            stream = client.stream(REQUEST)
            received = [event async for event in stream]
            deltas = [event.delta for event in received if isinstance(event, OutputTextDeltaEvent)]
            assert deltas[:2] == ["up ", "😀!"]

    run(main())
