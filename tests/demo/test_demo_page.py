"""The examples of `docs/demo.md` do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.demo.asking import ask

PAGE = Path(__file__).parents[2] / "docs" / "demo.md"


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
