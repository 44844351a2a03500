"""One item of an upstream's Responses stream: texts, citations and logprobs that arrive more than once."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.items import ARGUMENTS, REASONING, TEXT, UpstreamItem
from penstock.stream.deltas import (
    DiagnosticDelta,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
)
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.responses.stream_events import DELTAS, completed, done, inner, message


def test_citations_are_emitted_once_and_keep_the_offsets_in_their_part() -> None:
    def url(at: int) -> dict[str, Any]:
        return {
            "type": "url_citation",
            "url": f"https://{at}",
            "title": "",
            "start_index": at,
            "end_index": at,
        }

    cited = [
        {"type": "output_text", "text": "Hello", "annotations": [url(1), url(1), url(2)]},
        {
            "type": "output_text",
            "text": "Bye",
            "annotations": [url(0), {"type": "file_citation", "file_id": "f"}],
        },
    ]
    events = [
        *(*DELTAS, inner("output_text.annotation.added", 0, content_index=0, annotation=url(1))),
        inner("output_text_annotation.added", 0, content_index=0, annotation=url(1)),
        inner("output_text.annotation.added", 0, content_index=0, annotation=None),
        inner("output_text.delta", 0, content_index=1, delta="Bye"),
        *(done(0, message(content=cited)), completed(message(content=cited))),
    ]
    [item] = checks.answer(DIALECT, events)["output"]
    starts = [[each.get("start_index") for each in part["annotations"]] for part in item["content"]]
    assert [part["text"] for part in item["content"]] == ["Hello", "Bye"]
    assert starts == [[1, 1], [0, None]]


def test_a_citation_that_arrives_after_the_end_of_its_part_is_counted() -> None:  # spec N29
    citation = {"type": "url_citation", "url": "https://a", "title": "", "start_index": 0, "end_index": 1}
    cited = [{"type": "output_text", "text": text, "annotations": [citation]} for text in ("a", "b")]
    deltas = [inner("output_text.delta", 0, content_index=at, delta=text) for at, text in enumerate("ab")]
    response = checks.answer(DIALECT, [*deltas, done(0, message(content=cited)), completed()])
    assert [len(part["annotations"]) for part in response["output"][0]["content"]] == [0, 1]
    [diagnostic] = response["diagnostics"]
    assert (diagnostic["code"], diagnostic["count"]) == ("annotation_without_text", 1)


@pytest.mark.parametrize("indexes", [(0, 0, 0), (0, 1, 1), (1, 2, 2), (None, None, None), (0, 1, 7)])
def test_a_citation_event_belongs_to_the_part_that_is_open(indexes: tuple[int | None, ...]) -> None:
    """Also if its index is of another numbering than the one of the deltas."""
    citation = {"type": "url_citation", "url": "https://a", "title": "", "start_index": 0, "end_index": 1}

    def at(place: int) -> dict[str, Any]:
        return {} if indexes[place] is None else {"content_index": indexes[place]}

    events = [
        inner("output_text.delta", 0, delta="a", **at(0)),
        inner("output_text.done", 0, text="a", **at(0)),
        inner("output_text.delta", 0, delta="b", **at(1)),
        inner("output_text.annotation.added", 0, annotation=citation, **at(2)),
        inner("output_text.done", 0, text="b", annotations=[citation], **at(1)),
    ]
    [item] = checks.answer(DIALECT, [*events, completed()])["output"]
    assert [len(part["annotations"]) for part in item["content"]] == [0, 1]


@pytest.mark.parametrize(
    ("deltas", "parts"),
    [
        ([(0, "Hello"), (0, "Bye")], [("HelloBye", [1, 6])]),  # the second part was not marked
        ([(0, "Hel"), (1, "lo"), (2, "Bye")], [("Hel", []), ("lo", []), ("Bye", [1])]),
    ],
)
def test_citations_in_the_item_are_placed_where_their_text_was_received(
    deltas: list[tuple[int, str]], parts: list[tuple[str, list[int]]]
) -> None:
    citation = {"type": "url_citation", "url": "https://a", "title": "", "start_index": 1, "end_index": 2}
    cited = [{"type": "output_text", "text": text, "annotations": [citation]} for text in ("Hello", "Bye")]
    events = [inner("output_text.delta", 0, content_index=index, delta=text) for index, text in deltas]
    [item] = checks.answer(DIALECT, [*events, done(0, message(content=cited)), completed()])["output"]
    received = [
        (part["text"], [each["start_index"] for each in part["annotations"]]) for part in item["content"]
    ]
    assert received == parts


def test_an_invalid_citation_is_kept_as_unknown() -> None:
    events = [
        *DELTAS,
        inner("output_text.annotation.added", 0, annotation={"type": "url_citation", "url": 5}),
    ]
    [item] = checks.answer(DIALECT, [*events, completed()])["output"]
    assert item["content"][0]["annotations"] == [{"type": "unknown", "url": 5}]


def test_logprobs_have_every_field_of_the_schema() -> None:
    given_logprobs = [
        {
            "token": "Hi",
            "logprob": -1,
            "top_logprobs": [{"token": "Ho", "logprob": -2.5, "bytes": [72, 111]}, {}],
        },
        {"token": 5, "logprob": -1},
        {"token": "x", "logprob": True},
    ]
    events = [inner("output_text.delta", 0, delta="Hi", logprobs=given_logprobs), completed()]
    [item] = checks.answer(DIALECT, events)["output"]
    top = [{"token": "Ho", "logprob": -2.5, "bytes": [72, 111]}]
    assert item["content"][0]["logprobs"] == [
        {"token": "Hi", "logprob": -1, "bytes": [72, 105], "top_logprobs": top}
    ]


def test_the_cost_of_an_event_does_not_grow_with_the_answer() -> None:
    """Empty `done` events do not make the reader join the received text again and again."""
    item = [inner("output_text.delta", 0, delta="x" * 50)] * 2000 + [
        inner("output_text.done", 0, text="")
    ] * 2000
    assert checks.deltas(DIALECT, [*item, completed()])[-1].reason is FinishReason.STOP  # type: ignore[union-attr]


# One item, directly


def test_of_two_names_of_one_event_the_first_counts() -> None:  # decision 20
    item = UpstreamItem(0, "reasoning", 0, "rs")
    assert item.add_delta(REASONING, {"delta": "H"}, "response.reasoning.delta") == [
        ReasoningDelta("H", 0, part=0)
    ]
    assert item.add_delta(REASONING, {"delta": "H"}, "response.reasoning_text.delta") == []
    assert item.add_delta(REASONING, {"delta": "m"}, "response.reasoning.delta") == [
        ReasoningDelta("m", 0, part=0)
    ]


@pytest.mark.parametrize(
    ("received", "full", "added", "disagrees"),
    [
        ("", "Hello", "Hello", False),
        ("Hel", "Hello", "lo", False),
        ("Hello", "Hello", "", False),
        ("Hello", "", "", False),
        ("Hello", "Bye", "", True),
        ("Hello", "Hel", "", True),
    ],
)
def test_a_full_text_adds_only_what_is_missing(
    received: str, full: str, added: str, disagrees: bool
) -> None:  # quirk R5
    item = UpstreamItem(0, "message", 0, "msg")
    item.add_delta(TEXT, {"delta": received}, "d")
    deltas = [delta for _ in range(2) for delta in item.supply_text(TEXT, {"text": full}, "e")]
    assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == added
    assert [each.code for each in deltas if isinstance(each, DiagnosticDelta)] == (
        ["upstream_disagrees"] if disagrees else []
    )


def test_parts_are_received_separately() -> None:
    item = UpstreamItem(0, "message", 0, "msg")
    item.add_delta(TEXT, {"content_index": 1, "delta": "a"}, "d")
    raw = {"content": [{"type": "output_text", "text": "ab"}, "c", {"type": "refusal", "refusal": "no"}]}
    assert item.supply_parts(raw) == [
        TextDelta("b", 0, part=0),
        TextDelta("c", 0, part=1),
        RefusalDelta("no", 0, part=2),
    ]
    assert item.supply_parts(raw) == []


def test_the_parts_of_reasoning_and_of_its_summary_are_numbered_independently() -> None:
    item = UpstreamItem(0, "reasoning", 0, "rs")
    assert item.supply_parts({"summary": ["s", "t"], "content": ["r", "q"]}) == [
        *(SummaryDelta("s", 0, 0), SummaryDelta("t", 1, 0)),
        *(ReasoningDelta("r", 0, part=0), ReasoningDelta("q", 0, part=1)),
    ]


def test_an_unknown_part_is_reported_once() -> None:
    item = UpstreamItem(0, "message", 0, "msg")
    part = {"type": "output_audio"}
    assert [each.code for each in item.supply_part({}, part, "e") if isinstance(each, DiagnosticDelta)] == [
        "part_left_out"
    ]
    assert item.supply_part({}, part, "e") == []


@pytest.mark.parametrize("repeats", [True, False])
def test_repeats_and_hosted_calls_are_collected_but_not_emitted(repeats: bool) -> None:
    item = UpstreamItem(1, "function_call", 1, "fc")
    if repeats:
        item.first = UpstreamItem(0, "function_call", 0, "fc")
    else:
        item.is_hosted = True
    assert item.add_delta(ARGUMENTS, {"delta": "{}"}, "d") == []
    assert item.arguments == "{}"
