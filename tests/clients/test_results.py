"""The table of results, and the page that has it."""

from __future__ import annotations

import pytest

from tests.clients.environments import CLIENTS, version
from tests.clients.results import PAGE, Result, tables


def test_a_table_has_a_row_per_case_and_a_column_per_upstream() -> None:
    results = [
        Result("llm", "prompt", "chat", "passed"),
        Result("llm", "prompt", "gemini", "failed"),
        Result("Codex CLI", "text", "anthropic", "skipped"),
    ]
    codex, llm = tables(results).split("\n\n### ")
    assert codex.endswith("| text |  | skipped |  |")
    assert llm.endswith("| prompt | yes |  | **no** |\n")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_has_the_results_of_the_pinned_version(client: str) -> None:
    assert f"### {client} {version(client)}\n" in PAGE.read_text(), "run `make clients-page`"
