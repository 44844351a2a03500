"""Deltas: the machine handles each of them, and their order of priority is the one that is documented."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import pytest

from penstock.protocol.content import UrlCitation
from penstock.protocol.items import WebSearchCall
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from tests.stream.running import assert_lawful, finish, machine, plain, types

ONE_OF_EACH: list[tuple[Delta, str]] = [
    # The delta, and the first event that it causes in a stream that has just started.
    (BlockStart(0, BlockKind.TEXT), ""),
    (BlockEnd(0), ""),
    (TextDelta("a"), "output_item.added"),
    (RefusalDelta("a"), "output_item.added"),
    (ReasoningDelta("a"), "output_item.added"),
    (SummaryDelta("a"), "output_item.added"),
    (AnnotationDelta(UrlCitation(url="u")), ""),
    (OpaqueReasoning("a"), "output_item.added"),
    (ToolCallDelta(key=0, name="f", arguments="{}"), "output_item.added"),
    (ItemDelta(0, WebSearchCall(), done=True), "output_item.added"),
    (EventDelta("acme:trace", {}), "acme:trace"),
    (UsageDelta(input_tokens=1), ""),
    (UpstreamInfo(model="m"), ""),
    (DiagnosticDelta("code", "message"), ""),
    (FinishDelta(FinishReason.STOP), ""),
    (ErrorDelta("code", "message"), "error"),
]


@pytest.mark.parametrize(("delta", "first"), ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_the_machine_handles_the_delta(delta: Delta, first: str) -> None:
    stream = machine()
    events = stream.start()
    caused = stream.apply(delta)
    assert types(plain(caused))[:1] == ([first] if first else [])
    events += caused
    if stream.phase == "in_progress":
        events += finish(stream)
    assert_lawful(events)


def test_there_is_an_example_of_every_delta() -> None:
    assert {type(delta) for delta, _ in ONE_OF_EACH} == set(get_args(Delta))


@pytest.mark.parametrize("kind", get_args(Delta), ids=lambda kind: kind.__name__)
def test_a_delta_cannot_be_changed(kind: Any) -> None:
    delta = next(delta for delta, _ in ONE_OF_EACH if isinstance(delta, kind))
    with pytest.raises(AttributeError):
        setattr(delta, kind.__struct_fields__[0], None)


@pytest.mark.parametrize("reversed_order", [False, True])
def test_the_last_finish_reason_in_the_list_has_the_highest_priority(reversed_order: bool) -> None:
    for lower, higher in pairwise(FinishReason):
        stream = machine()
        stream.start()
        for reason in (higher, lower) if reversed_order else (lower, higher):
            stream.apply(FinishDelta(reason))
        assert stream.deferred_reason is higher
