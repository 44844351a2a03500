"""Selecting a vendor by name, and targets made from it."""

from __future__ import annotations

import pytest

from penstock.dialects.plan import Quirks
from penstock.dialects.presets import (
    PRESETS,
    as_markdown,
    fingerprint,
    preset,
    supports_responses,
    target_for,
)


def test_the_error_for_an_unknown_vendor_lists_similar_names() -> None:
    with pytest.raises(LookupError, match=r'no preset called "open-router"; did you mean openrouter\?'):
        preset("open-router")
    with pytest.raises(LookupError, match="available: anthropic, azure"):
        preset("zzzz")


def test_a_target_has_the_preset_the_model_and_a_fingerprint_of_the_key() -> None:
    target = target_for("anthropic/claude-sonnet-4.5", "openrouter", key="sk-or-1")
    assert (target.vendor, target.dialect, target.model) == (
        "openrouter",
        "chat",
        "anthropic/claude-sonnet-4.5",
    )
    assert target.family == "claude"
    assert target.quirks == Quirks(reasoning_details=True, effort="openrouter", files=True)
    assert target.key_fingerprint == fingerprint("sk-or-1") != fingerprint("sk-or-2")
    assert "sk-or" not in repr(target)
    assert target_for("qwen3", "ollama").key_fingerprint == ""


def test_the_documented_table_has_a_row_for_every_preset() -> None:
    rows = as_markdown().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(PRESETS)


@pytest.mark.parametrize(("name", "supported"), [("openai", True), ("ollama", True), ("mistral", False)])
def test_vendors_that_support_responses(name: str, supported: bool) -> None:
    assert supports_responses(preset(name)) is supported
