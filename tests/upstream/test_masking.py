"""Which words of a delta are the upstream's, and that no secret is left in them."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.masking import Secrets, secrets_of
from penstock.protocol.content import UrlCitation
from penstock.stream import deltas
from penstock.stream.deltas import AnnotationDelta, Delta, TextDelta, ToolCallDelta, UpstreamInfo, UsageDelta
from penstock.upstream.masking import FIELDS, masked

KEY = "sk-planted/7fQ2x9LmZt4w"

OF_THE_MODEL = {"text", "logprobs", "arguments"}
OURS = {"block", "key", "call", "part", "kind", "reason", "code", "done", "whole", "estimated", "retry_after"}
"""Keys that stay inside, and words of Penstock's."""
ELSEWHERE = {(deltas.ErrorDelta, "message"), (deltas.ErrorDelta, "type")}
"""A message is masked more strictly; the type is one of ours."""


class Answer:
    """The part of an upstream's answer that masks."""

    def __init__(self, secret: str) -> None:
        self._secrets = Secrets([secret])

    def mask(self, text: str) -> str:
        return self._secrets.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self._secrets.mask_value(value)


def clean(delta: Delta, secret: str = KEY) -> Delta:
    (only,) = masked([delta], Answer(secret))  # type: ignore[arg-type]  # nothing is read from it
    return only


@pytest.mark.parametrize("kind", get_args(Delta))
def test_every_text_of_every_delta_is_masked_or_known_to_be_no_words_of_the_upstream(kind: type[Any]) -> None:
    names = {name for name in kind.__struct_fields__ if not name.endswith("_tokens")}
    undecided = names - OF_THE_MODEL - OURS - set(FIELDS.get(kind, ()))
    assert {name for name in undecided if (kind, name) not in ELSEWHERE} == set()


def test_what_the_upstream_says_is_masked_and_what_the_model_says_is_not() -> None:
    assert clean(UpstreamInfo(KEY, f"model-{KEY}", "flex")) == UpstreamInfo("[key]", "model-[key]", "flex")
    call = ToolCallDelta(key=KEY, id=KEY, name="f", arguments=KEY)
    assert clean(call) == ToolCallDelta(key=KEY, id="[key]", name="f", arguments=KEY)
    citation = AnnotationDelta(UrlCitation(url=f"https://a/?k={KEY}", title="A"))
    assert clean(citation) == AnnotationDelta(UrlCitation(url="https://a/?k=[key]", title="A"))
    assert clean(TextDelta(KEY)) == TextDelta(KEY)


def test_a_delta_without_a_secret_is_the_same_object() -> None:
    for delta in (
        UpstreamInfo("id", "model"),
        UsageDelta(1, 2),
        AnnotationDelta(UrlCitation(url="https://a")),
    ):
        assert clean(delta) is delta


def test_a_placeholder_is_masked_in_no_name() -> None:
    assert clean(UpstreamInfo(model="gpt-4o-mini"), "mini") == UpstreamInfo(model="gpt-4o-mini")


@pytest.mark.parametrize("length", range(len(KEY) // 2 + 1, len(KEY)))
def test_a_message_that_was_cut_in_the_middle_of_a_secret_does_not_show_its_beginning(length: int) -> None:
    assert Secrets([KEY]).mask(f"no '{KEY[:length]}' here") == "no '[key]' here"


def test_a_short_value_of_a_variable_is_an_ordinary_word() -> None:
    assert list(secrets_of(["eu", "Bearer abc", "long-enough", "Basic dXNlcjpwYXNz"])) == [
        "Bearer abc",
        "long-enough",
        "Basic dXNlcjpwYXNz",
        "dXNlcjpwYXNz",
    ]


@given(st.text("key[]ab/ ", max_size=30), st.text("key[]ab/ ", min_size=1, max_size=20))
def test_whatever_the_secret_is_masking_ends_and_leaves_none_of_it(text: str, secret: str) -> None:
    shown = Secrets([secret]).mask(f"{text}{secret}{text}")
    # With a bracket in it, a secret may come about anew where the mask meets the text around it.
    if not set(secret) & set("[]") and secret not in "key":
        assert secret not in shown
