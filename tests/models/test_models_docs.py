"""`docs/models.md` matches the code."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.models import listing
from penstock.models.catalog import NOT_CHAT_NAMES, ROUTES, as_markdown
from penstock.models.enrich import DEFAULT_OUTPUT, DEFAULT_WINDOW
from penstock.models.info import SOURCES, ModelInfo
from penstock.models.overrides import parse_override

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_the_catalog_on_the_page_matches_the_code() -> None:
    assert as_markdown() in PAGE, "the table must be the output of penstock.models.catalog.as_markdown()"


def test_the_sources_on_the_page_are_in_order() -> None:
    assert tuple(re.findall(r"^\d\. `(\w+)`", PAGE, re.MULTILINE)) == SOURCES


def test_every_field_of_a_list_is_on_the_page() -> None:
    tables = (
        *(listing.WINDOWS, listing.INPUTS, listing.OUTPUTS, listing.IMAGE_FLAGS, listing.TOOL_FLAGS),
        *(listing.REASONING_FLAGS, listing.EFFORTS),
    )
    missing = [field for table in tables for field in table if f"`{field}`" not in PAGE]
    assert missing == []
    assert [name for name in NOT_CHAT_NAMES if f"`{name}`" not in PAGE] == []
    assert [name for name in ROUTES if f"`:{name}`" not in PAGE] == []


def test_the_defaults_on_the_page_match_the_code() -> None:
    assert f"{DEFAULT_WINDOW:,} tokens" in PAGE
    assert f"{DEFAULT_OUTPUT:,} of them" in PAGE


def test_every_field_of_a_model_is_on_the_page() -> None:
    assert [field for field in ModelInfo.__struct_fields__ if f"`{field}`" not in PAGE] == []


def test_the_overrides_on_the_page_can_be_parsed() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert len([parse_override(line) for line in block.splitlines()]) == 3
