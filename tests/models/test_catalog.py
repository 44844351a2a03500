"""The built-in table of models matches exact names only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.catalog import CATALOG, in_catalog
from penstock.models.enrich import DEFAULT_WINDOW, enrich
from penstock.models.info import ModelFacts


@pytest.mark.parametrize("name", CATALOG)
def test_the_limits_of_every_model_in_the_catalog_fit_into_its_window(name: str) -> None:
    info = enrich(ModelFacts(id=name))
    assert info.max_input + info.max_output <= info.context_window
    known = CATALOG[name]
    assert (info.reasoning, info.sources["reasoning"]) == (
        known.reasoning or False,
        "catalog" if known.reasoning is not None else "default",
    )
    assert info.sources["context_window"] == ("catalog" if known.window else "default")


@pytest.mark.parametrize(
    ("id", "row"),
    [
        ("openai/gpt-4o-2024-11-20", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),  # it had a smaller output than its successors
        ("GPT-4o", "gpt-4o"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("google/gemini-2.5-pro:free", "gemini-2.5-pro"),
        ("gemini-2-5-pro", "gemini-2.5-pro"),
        ("x-ai/grok-4-0709", "grok-4"),
        ("command-a-03-2025", "command-a"),
    ],
)
def test_the_catalog_matches_every_spelling_of_a_model(id: str, row: str) -> None:
    assert in_catalog(id) is not None
    assert in_catalog(id) == CATALOG[row]


@pytest.mark.parametrize(
    "id",
    [
        *("gpt-4o-ultra", "gpt-4", "gpt-4.15", "gpt-4.1-micro", "my-gpt-4.1", "gpt-41", "gpt-4.1.1", "gpt"),
        *("claude-sonnet", "claude-sonnet-4-6", "claude-sonnet-4-5-1m", "gemini-2.5-pro-preview-05-06"),
        *("gpt-4.1:7b", "gpt-4.1:latest", "ft:gpt-4.1:people::x", "gpt-4.1-mini-distill", "", ":", "gemini"),
    ],
)
def test_similar_names_do_not_raise_a_limit(id: str) -> None:
    """Ask I2: a fuzzy match gave one model the window of another."""
    info = enrich(ModelFacts(id=id))
    assert info.context_window <= DEFAULT_WINDOW
    assert in_catalog(id) is None or id == "gpt-4"


@given(st.sampled_from(sorted(CATALOG)), st.text("abcdefgh-.", min_size=1, max_size=4), st.booleans())
def test_a_changed_name_does_not_raise_a_limit(name: str, change: str, in_front: bool) -> None:
    id = f"{change}{name}" if in_front else f"{name}{change}"
    known = in_catalog(id)
    assert known is None or known in (CATALOG.get(id), CATALOG.get(name))
    assert known is None or id in CATALOG
