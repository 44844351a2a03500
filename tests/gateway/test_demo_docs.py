"""`docs/demo.md` says what is true now. `python -m tests.gateway.test_demo_docs` writes its tables anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.demo.render import HANDLED
from penstock.gateway.demo.wishes import as_markdown
from tests.gateway.demos import ask

PAGE = Path(__file__).parents[2] / "docs" / "demo.md"


def fields() -> str:
    shown = {"extra": "any other field"}
    rows = [f"| {shown.get(field, f'`{field}`')} | {handling} |" for field, handling in HANDLED.items()]
    return "\n".join(["| field | demo |", "|---|---|", *rows])


PARTS = {"wishes": as_markdown, "demo fields": fields}


def with_part(page: str, name: str, content: str) -> str:
    marked = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end of generated -->)", re.DOTALL)
    page, count = marked.subn(lambda match: f"{match[1]}{content}\n{match[2]}", page)
    assert count == 1, name
    return page


@pytest.mark.parametrize("name", PARTS)
def test_the_tables_are_current(name: str) -> None:
    page = PAGE.read_text()
    assert with_part(page, name, PARTS[name]()) == page, "run python -m tests.gateway.test_demo_docs"


def examples() -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = [
        json.loads(body) for body in re.findall(r"-d '(.*?)'\n", PAGE.read_text(), re.DOTALL)
    ]
    assert len(bodies) == 3
    return bodies


def test_the_examples_do_what_the_page_says() -> None:
    text, tool, failure = map(ask, examples())
    assert text.items("reasoning")
    assert text.text == "1, 2, 3, 4, 5."
    assert tool.arguments == [{"city": "Paris", "days": 3}]
    assert '`{"city": "Paris", "days": 3}`' in PAGE.read_text()
    assert failure.events[-1]["type"] == "response.failed"
    assert failure.response["error"]["code"] == "rate_limit_exceeded"
    assert len(failure.text.split()) == 10


if __name__ == "__main__":
    written = PAGE.read_text()
    for part, make in PARTS.items():
        written = with_part(written, part, make())
    PAGE.write_text(written)
