"""One item of an upstream's Responses stream: texts, citations and logprobs that arrive more than once."""

from __future__ import annotations

from typing import Any

from penstock.dialects.responses import DIALECT
from penstock.stream.deltas import (
    FinishReason,
)
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.responses.stream_events import DELTAS, completed, done, inner, message


def test_citations_are_emitted_once_and_shifted_with_their_part() -> None:
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
    annotations = item["content"][0]["annotations"]
    assert [each.get("start_index") for each in annotations] == [1, 1, 2, 5, None]


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
