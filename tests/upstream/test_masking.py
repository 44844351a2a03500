"""Masking of deltas: which fields come from the upstream, and that no secret remains in them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from penstock.dialects.pipeline import PLAIN
from penstock.net.masking import Secrets
from penstock.protocol.content import UrlCitation
from penstock.stream import deltas
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    ErrorDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.upstream.masking import FIELDS, masked

KEY = "sk-planted/7fQ2x9LmZt4w"

OF_THE_MODEL = {"text", "logprobs", "arguments"}

OURS = {"block", "key", "call", "part", "kind", "reason", "code", "done", "whole", "estimated", "retry_after"}
"""Internal keys, and text of Penstock."""

ELSEWHERE = {(deltas.ErrorDelta, "message"), (deltas.ErrorDelta, "type")}
"""A message is masked more strictly; the type is one of ours."""


class Answer:
    """The part of a source that masks."""

    def __init__(self, secret: str) -> None:
        self._secrets = Secrets([secret])

    def mask(self, text: str) -> str:
        return self._secrets.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self._secrets.mask_value(value)


def clean(delta: Delta, secret: str = KEY) -> Delta:
    (only,) = masked([delta], Answer(secret))
    return only


@pytest.mark.parametrize("kind", get_args(Delta))
def test_every_text_field_of_every_delta_is_masked_or_known(kind: type[Any]) -> None:
    names = {name for name in kind.__struct_fields__ if not name.endswith("_tokens")}
    undecided = names - OF_THE_MODEL - OURS - set(FIELDS.get(kind, ()))
    assert {name for name in undecided if (kind, name) not in ELSEWHERE} == set()


def test_text_of_the_upstream_is_masked_but_not_of_the_model() -> None:
    assert clean(UpstreamInfo(KEY, f"model-{KEY}", "flex")) == UpstreamInfo("[key]", "model-[key]", "flex")
    call = ToolCallDelta(key=KEY, id=KEY, name="f", arguments=KEY)
    assert clean(call) == ToolCallDelta(key=KEY, id="[key]", name="f", arguments=KEY)
    citation = AnnotationDelta(UrlCitation(url=f"https://a/?k={KEY}", title="A"))
    assert clean(citation) == AnnotationDelta(UrlCitation(url="https://a/?k=[key]", title="A"))
    assert clean(TextDelta(KEY)) == TextDelta(KEY)


def test_the_message_of_an_error_is_masked_even_for_a_placeholder() -> None:
    """It is only text: no name in it is needed to read the stream."""
    error = ErrorDelta("server_error", f"bad key {KEY}", param=KEY)
    assert clean(error) == ErrorDelta("server_error", "bad key [key]", param="[key]")
    assert clean(ErrorDelta("server_error", "the model mini"), "mini").message == "the model [key]"  # type: ignore[union-attr]


def test_a_delta_without_a_secret_is_the_same_object() -> None:
    for delta in (
        UpstreamInfo("id", "model"),
        UsageDelta(1, 2),
        AnnotationDelta(UrlCitation(url="https://a")),
    ):
        assert clean(delta) is delta


def test_a_placeholder_is_not_masked_in_names() -> None:
    assert clean(UpstreamInfo(model="gpt-4o-mini"), "mini") == UpstreamInfo(model="gpt-4o-mini")


def test_what_skips_masking_has_nothing_to_mask() -> None:
    assert PLAIN.isdisjoint(FIELDS)


def test_deltas_of_the_model_are_returned_as_they_are() -> None:
    given: list[Delta] = [TextDelta(KEY), UsageDelta(1, 2)]
    assert masked(given, Answer(KEY)) is given
