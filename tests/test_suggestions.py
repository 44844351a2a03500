"""Advice for a name that does not exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.suggestions import advice, near_names, unknown

MODELS = ("claude-sonnet-4-5", "gpt-5", "gpt-5-mini", "GLM-4.6")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gtp-5", "did you mean gpt-5?"),
        ("gpt-5.1", "did you mean gpt-5?"),
        ("gpt-4-mini", "did you mean gpt-5-mini?"),
        ("glm-46", "did you mean GLM-4.6?"),
        ("SONNET", "did you mean claude-sonnet-4-5?"),
        ("llama", "available: GLM-4.6, claude-sonnet-4-5, gpt-5, gpt-5-mini"),
        ("o", "available: GLM-4.6, claude-sonnet-4-5, gpt-5, gpt-5-mini"),
        ("", "available: GLM-4.6, claude-sonnet-4-5, gpt-5, gpt-5-mini"),
    ],
)
def test_similar_names_are_suggested_and_otherwise_all_are_listed(name: str, expected: str) -> None:
    assert advice(name, MODELS) == expected


def test_three_names_are_enumerated() -> None:
    assert advice("model-x", ["model-a", "model-b", "model-c", "model-d"]).count("model") == 3
    assert ", model-" in advice("model-x", ["model-a", "model-b", "model-c"])


def test_a_long_list_is_cut() -> None:
    text = advice("zzz", [f"model-{number:03}" for number in range(100)])
    assert text.endswith("model-059 and 40 more")


def test_without_any_name_there_is_nothing_to_suggest() -> None:
    assert unknown("target", "local", []) == 'there is no target called "local"; none are defined'


def test_what_cannot_be_a_mistyped_name_is_not_repeated() -> None:
    """It may be a secret."""
    for name in ("sk-" + "x" * 80, "line\nbreak", "\x1b[31m"):
        assert unknown("model", name, MODELS).startswith("there is no model called that; available: ")


@given(st.text(), st.lists(st.text()))
def test_only_known_names_are_suggested(name: str, known: list[str]) -> None:
    near = near_names(name, known)
    assert len(near) <= 3
    assert set(near) <= set(known)
