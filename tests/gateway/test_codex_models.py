"""The list of models in the form that Codex reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.codex_models import INSTRUCTIONS, SAFE_EFFORTS
from penstock.models.catalog import CATALOG
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts
from tests.gateway.model_facts import MODEL_FACTS, body

CODEX_REQUIRES: dict[str, type | tuple[type, ...]] = {
    "slug": str,
    "display_name": str,
    "supported_reasoning_levels": list,
    "shell_type": str,
    "visibility": str,
    "supported_in_api": bool,
    "priority": int,
    "base_instructions": str,
    "supports_reasoning_summaries": bool,
    "support_verbosity": bool,
    "truncation_policy": dict,
    "supports_parallel_tool_calls": bool,
    "experimental_supported_tools": list,
}
"""Fields without which Codex 0.105 or 0.166 rejects the list, each verified with the real program."""


CODEX_WORDS: dict[str, set[str | None]] = {
    "shell_type": {"unified_exec", "disabled"},
    "visibility": {"list"},
    "apply_patch_tool_type": {"freeform", None},
    "default_reasoning_level": {*SAFE_EFFORTS, None},
    "default_verbosity": {None},
}
"""Values that both accept. 0.105 rejects the list for an effort `max`, 0.166 for an empty one."""


@given(st.lists(MODEL_FACTS, max_size=3))
def test_codex_finds_every_field_that_it_needs_and_no_word_that_it_does_not_know(
    facts: list[ModelFacts],
) -> None:
    for index, entry in enumerate(body(*map(enrich, facts))["models"]):
        for field, kind in CODEX_REQUIRES.items():
            assert isinstance(entry[field], kind), field
        for field, words in CODEX_WORDS.items():
            assert entry[field] in words, field
        for level in entry["supported_reasoning_levels"]:
            assert level["effort"] in SAFE_EFFORTS
            assert level["description"]
        assert entry["truncation_policy"] == {"mode": "tokens", "limit": 10_000}
        assert set(entry["input_modalities"]) <= {"text", "image"}
        assert entry["priority"] == index
        assert entry["base_instructions"] == INSTRUCTIONS


@pytest.mark.parametrize("model", [*CATALOG, "nobody-knows"])
def test_what_codex_fills_leaves_room_for_the_answer(model: str) -> None:
    info = enrich(ModelFacts(id=model))
    (entry,) = body(info)["models"]
    assert entry["context_window"] == entry["max_context_window"] == info.context_window
    usable = info.context_window * entry["effective_context_window_percent"] // 100
    assert 0 < entry["auto_compact_token_limit"] < info.max_input
    assert 0 < usable <= info.max_input
    # The last percent may be lost to rounding, and what Codex never uses of a window.
    assert usable >= min(info.max_input - info.context_window // 100, info.context_window * 95 // 100) - 1


def test_codex_offers_its_tools_to_models_that_take_tools_alone() -> None:
    able, unable = body(enrich(ModelFacts(id="a")), enrich(ModelFacts(id="b", tool_calling=False)))["models"]
    fields = ("shell_type", "apply_patch_tool_type", "supports_parallel_tool_calls")
    assert [able[field] for field in fields] == ["unified_exec", "freeform", True]
    assert [unable[field] for field in fields] == ["disabled", None, False]


@pytest.mark.parametrize(
    ("facts", "modalities"),
    [
        (ModelFacts(id="nobody-knows"), ["text", "image"]),
        (ModelFacts(id="m", image_input=True), ["text", "image"]),
        (ModelFacts(id="m", image_input=False), ["text"]),
    ],
)
def test_codex_keeps_the_images_for_a_model_that_nobody_knows(
    facts: ModelFacts, modalities: list[str]
) -> None:
    """Field F7."""
    (entry,) = body(enrich(facts))["models"]
    assert entry["input_modalities"] == modalities


@pytest.mark.parametrize(
    ("facts", "sent", "effort"),
    [
        (ModelFacts(id="m", reasoning=True, efforts=("low", "medium", "max")), True, "medium"),
        (ModelFacts(id="m", reasoning=True, efforts=("low", "high")), True, None),
        (ModelFacts(id="m", reasoning=True), True, None),
        (ModelFacts(id="m", reasoning=False), False, None),
        (ModelFacts(id="m"), True, None),
    ],
)
def test_codex_asks_for_reasoning_unless_the_model_has_none(
    facts: ModelFacts, sent: bool, effort: str | None
) -> None:
    (entry,) = body(enrich(facts))["models"]
    assert entry["supports_reasoning_summaries"] is entry["supports_reasoning_summary_parameter"] is sent
    assert entry["default_reasoning_level"] == effort


def test_the_lists_of_the_gateway_promise_no_default_efforts() -> None:
    """Codex sends `medium` unasked if it is listed."""
    info = enrich(ModelFacts(id="m", reasoning=True))
    lists = body(info)
    assert info.efforts
    assert lists["models"][0]["supported_reasoning_levels"] == []
    assert lists["data"][0]["supported_reasoning_levels"] == []
