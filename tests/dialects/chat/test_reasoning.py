"""Reasoning in the seven ways of Chat Completions: emitted once, and sealed where it must be sent back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.dialects import envelope
from penstock.dialects.envelope import unseal
from penstock.dialects.plan import Plan
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read as read_struct
from penstock.stream.deltas import (
    DiagnosticDelta,
    OpaqueReasoning,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
)
from tests.dialects.chat_streams import DONE, answer, calls, chunk, of, payloads, plan, read


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"reasoning_details": [{"type": f"reasoning.{kind}", "index": 0, **fields}]}


def asking(fields: dict[str, Any], **quirks: Any) -> Plan:
    """A plan for a request with these fields."""
    return replace(plan(**quirks), request=read_struct({"model": "m", **fields}, CreateResponse))


REASONING: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    # fragments of the message, reasoning text, summary
    "reasoning_content": ([{"reasoning_content": "a"}, {"reasoning_content": "b"}], "ab", ""),
    "reasoning": ([{"reasoning": "a"}, {"reasoning": "b"}], "ab", ""),
    "both": ([{"reasoning": "a", "reasoning_content": "a"}], "a", ""),
    "details alone": ([detail("text", text="a"), detail("text", text="b")], "ab", ""),
    "details as well": ([{"reasoning": "a", **detail("text", text="a")}], "a", ""),
    "a summary in details": ([{"reasoning": "a", **detail("summary", summary="a")}], "", "a"),
    "encrypted as well": ([{"reasoning": "a", **detail("encrypted", data="x")}], "a", ""),
    "details once more at the end": (
        [{"reasoning": "a"}, {"reasoning": "b"}, detail("text", text="ab")],
        "ab",
        "",
    ),
    "LiteLLM": (
        [{"reasoning_content": "a", "thinking_blocks": [{"type": "thinking", "thinking": "a"}]}],
        "a",
        "",
    ),
    "two lists": ([{**detail("text", text="a"), "thinking_blocks": [{"thinking": "a"}]}], "a", ""),
    "a content list": (
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}],
        "a",
        "",
    ),
    "Google's mark": ([{"content": "a", "extra_content": {"google": {"thought": True}}}], "a", ""),
    "cot_summary": ([{"cot_summary": "a"}, {"cot_summary": "b"}], "", "ab"),
    "wrong types": ([{"reasoning": {"a": 1}, "reasoning_details": "x"}], "", ""),
}


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_is_read_once_in_every_shape(name: str) -> None:
    fragments, text, summary = REASONING[name]
    deltas = read(*map(chunk, fragments), DONE)
    assert "".join(each.text for each in of(deltas, ReasoningDelta)) == text
    assert "".join(each.text for each in of(deltas, SummaryDelta)) == summary


def test_a_signature_is_sealed_with_its_text_before_the_next_output() -> None:
    deltas = read(
        chunk({"reasoning": "a", **detail("text", text="a", format="f")}),
        chunk({"reasoning": "b", **detail("text", text="b", format="f")}),
        chunk(detail("text", signature="s+/=", format=None)),
        chunk({"content": "hi"}),
    )
    sealed = {"type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "s+/="}
    assert payloads(deltas) == [{"reasoning_details": [sealed]}]
    assert [type(each) for each in deltas[:4]] == [ReasoningDelta, ReasoningDelta, OpaqueReasoning, TextDelta]


def test_details_are_separated_by_type_index_id_and_signature() -> None:
    deltas = read(
        chunk(detail("summary", summary="a", id="r1")),
        chunk(detail("encrypted", data="x", id="r1")),
        chunk(detail("encrypted", data="y")),
        chunk(calls({"index": 0, "id": "c", "function": {"name": "f"}})["choices"][0]["delta"]),
    )
    (payload,) = payloads(deltas)
    assert [each.get("data") for each in payload["reasoning_details"]] == [None, "x", "y"]
    reasoning, call = answer(
        chunk({"reasoning": "a", **detail("summary", summary="a")}),
        chunk(detail("encrypted", data="x")),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}, finish="tool_calls"),
    )["output"]
    assert reasoning["encrypted_content"].startswith("pk1.")
    assert call["call_id"] == "c"


def test_details_without_a_secret_are_sealed_only_if_they_are_sent_back_as_details() -> None:
    chunks = chunk(detail("text", text="a")), chunk({"content": "hi"}), DONE
    assert payloads(read(*chunks)) == []
    assert payloads(read(*chunks, for_plan=plan(reasoning_details=True))) == [detail("text", text="a")]


INCLUDED = {"include": ["reasoning.encrypted_content"]}
ASKS: dict[str, tuple[dict[str, Any], bool]] = {
    "included": (INCLUDED, True),
    "not stored": ({"store": False}, True),
    "stored": ({"store": True}, False),
    "another include": ({"include": ["message.output_text.logprobs"]}, False),
}


@pytest.mark.parametrize(("fields", "is_sealed"), ASKS.values(), ids=ASKS)
def test_plain_text_is_sealed_if_only_the_client_keeps_it(fields: dict[str, Any], is_sealed: bool) -> None:
    """Ask C1: otherwise a restart in the middle of a tool loop loses it."""
    chunks = [chunk({"reasoning_content": "a"}), chunk({"reasoning_content": "b"}), chunk({"content": "hi"})]
    found = payloads(read(*chunks, DONE, for_plan=asking(fields)))
    assert found == ([{"reasoning_content": "ab"}] if is_sealed else [])


@pytest.mark.parametrize("name", REASONING)
def test_sealed_text_is_the_text_that_was_emitted_and_is_sealed_once(name: str) -> None:
    fragments, text, _ = REASONING[name]
    deltas = read(*map(chunk, fragments), DONE, for_plan=asking(INCLUDED))
    for payload in payloads(deltas):
        details = "".join(each.get("text", "") for each in payload.pop("reasoning_details", []))
        details += "".join(each.get("thinking", "") for each in payload.pop("thinking_blocks", []))
        sealed = [value for value in payload.values() if isinstance(value, str)]
        assert ["".join(sealed) + details] in ([text], [""]) or not text
    assert payloads(deltas) or not text


def test_text_that_is_sealed_as_details_is_not_sealed_a_second_time() -> None:
    chunks = chunk({"reasoning": "a", **detail("text", text="a")}), chunk({"content": "hi"}), DONE
    assert payloads(read(*chunks, for_plan=asking(INCLUDED))) == [detail("text", text="a")]


def test_thinking_in_tags_is_sealed_as_text() -> None:
    chunks = [chunk({"content": "<think>Hm"}), chunk({"content": "m.</think>Hi."}), DONE]
    deltas = read(*chunks, for_plan=asking(INCLUDED, think_tags=True))
    assert payloads(deltas) == [{"reasoning_content": "Hmm."}]


def test_text_that_is_too_large_to_seal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "MOST_BYTES", 100)
    deltas = read(chunk({"reasoning_content": "a" * 200}), DONE, for_plan=asking(INCLUDED))
    assert payloads(deltas) == []
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["reasoning_too_large"]


def test_opaque_fields_are_sealed_under_their_names() -> None:
    assert payloads(read(chunk({"content": "a"}), chunk({"cot_id": "cot_1"}), DONE)) == [{"cot_id": "cot_1"}]
    extra = {"google": {"thought_signature": "sig"}}
    assert payloads(read(chunk({"content": "", "extra_content": extra}), DONE)) == [{"extra_content": extra}]
    assert payloads(read(chunk({"reasoning_opaque": "x", "extra_content": {"google": {}}}), DONE)) == [
        {"reasoning_opaque": "x"}
    ]


def test_the_signature_of_a_call_directly_precedes_it() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    second = {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}
    deltas = read(calls(first, second), chunk(finish="tool_calls"))
    assert [type(each) for each in deltas[:3]] == [OpaqueReasoning, ToolCallDelta, ToolCallDelta]
    assert deltas[0].call == 0  # type: ignore[union-attr]
    assert payloads(deltas) == [{"extra_content": extra}]
    sealed = unseal(deltas[0].data)  # type: ignore[union-attr]
    assert sealed is not None
    assert sealed.attached == "call"


def test_a_signature_after_its_call_is_reported() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    late = {"index": 0, "function": {"arguments": "{}"}, "extra_content": extra}
    deltas = read(calls({"index": 0, "id": "a", "function": {"name": "f"}}), calls(late))
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["late_signature"]
    assert of(deltas, OpaqueReasoning) == []


def test_a_repeated_signature_is_emitted_once() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    call = {"index": 0, "id": "a", "function": {"name": "f"}, "extra_content": extra}
    deltas = read(calls(call), calls(call), calls({**call, "id": "b"}))
    assert len(of(deltas, OpaqueReasoning)) == 2
    assert of(deltas, DiagnosticDelta) == []
