"""The table of results: which client passed which case at which upstream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from tests.clients.environments import CLIENTS, version

HEADINGS = {"chat": "Chat Completions", "anthropic": "Anthropic Messages", "gemini": "Gemini"}
"""The columns."""

MARKS = {"passed": "yes", "failed": "**no**", "skipped": "skipped", "": ""}

PAGE = Path(__file__).parents[2] / "docs" / "clients" / "results.md"
BEGIN, END = "<!-- results: begin (make clients-page) -->\n", "<!-- results: end -->\n"


class Result(Struct, frozen=True):
    client: str
    case: str
    dialect: str
    outcome: str
    """`passed`, `failed` or `skipped`."""


def tables(results: Iterable[Result]) -> str:
    """Return a table per client, in Markdown."""
    by_client: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        by_client[result.client][result.case][result.dialect] = result.outcome
    found = []
    for client in (each for each in CLIENTS if each in by_client):
        lines = [
            f"### {client} {version(client)}",
            "",
            f"| case | {' | '.join(HEADINGS.values())} |",
            "|---|---|---|---|",
        ]
        for case, outcomes in by_client[client].items():
            marks = [MARKS[outcomes.get(dialect, "")] for dialect in HEADINGS]
            lines.append(f"| {case} | {' | '.join(marks)} |")
        found.append("\n".join(lines))
    return "\n\n".join(found) + "\n"


def update_page(results: Iterable[Result]) -> None:
    """Replace the generated part of docs/clients/results.md."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{tables(results)}\n{END}{rest.partition(END)[2]}")
