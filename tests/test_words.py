"""Words that do not belong in code, docs or messages, because a reader stumbles over them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

REPLACEMENTS = {
    r"told": "reported, sent, returned, or a noun such as deltas or message",
    r"hurts": "breaks",
    r"fall-back": "fallback",
    r"fail-over": "fallback",
    r"time-out": "timeout",
    r"anew": "again; regenerated",
    r"makes? do with": "falls back to",
    r"stronger than": "overrides",
    r"(?<!there )(?:is|are) no (?:JSON|stream|number|answer|request|error|object|list)": "is not a ...",
    r"there are none at all": "none are defined",
    r"sign of life": "heartbeat",
    r"taken up again": "resumed",
    r"at all events": "in any case",
    r"belongs? into": "belongs in",
    r"not waited for": "... does not wait for it",
    r"not set or empty": "unset or empty",
}
SUFFIXES = {".py", ".md", ".js", ".json", ".toml", ".txt", ".yaml"}
FOLDERS = ("src", "tests", "docs", "bench", "examples", "vscode")


@cache
def files() -> list[tuple[Path, str]]:
    """The path and the text of every file, without this one."""
    return [(path.relative_to(ROOT), path.read_text(errors="replace")) for path in _paths()]


def _paths() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.suffix in SUFFIXES)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts and path != Path(__file__):
                yield path


@pytest.mark.parametrize("pattern", REPLACEMENTS)
def test_a_plain_word_is_used_instead(pattern: str) -> None:
    word = re.compile(rf"(?<![a-zA-Z]){pattern}(?![a-zA-Z])", re.IGNORECASE)
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in files()
        if re.search(pattern, text, re.IGNORECASE)
        for number, line in enumerate(text.splitlines(), 1)
        if word.search(line)
    ]
    assert found == [], f"say: {REPLACEMENTS[pattern]}"
