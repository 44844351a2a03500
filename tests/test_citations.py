"""Every reason that source, docs and tests cite is written down in docs/, and what is there is cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "decisions.md", ROOT / "docs" / "requirements.md")
FOLDERS = ("src", "docs", "tests", "vscode", "bench", "examples")
SUFFIXES = {".py", ".js", ".mjs", ".md"}

_NUMBERED = r"(?:[Dd]ecision|[Ii]nvariant|[Cc]lient|[Ee]ditor) \d{1,2}"
_LETTERED = r"(?:[Ss]pec|[Qq]uirk|[Aa]sk|[Ff]ield) [A-Z]\d{1,2}"
CITATION = re.compile(rf"\b(?:{_NUMBERED}|{_LETTERED})\b")
RANGE = re.compile(rf"({CITATION.pattern}) to ({CITATION.pattern})")
ANCHOR = re.compile(r'<a id="([a-z]+)-([a-z]?\d+)"></a>(.*)')
BARE = re.compile(r"(?:^|[\s(])([A-Z]\d{1,2})(?=[\s),;:.]|$)", re.MULTILINE)
ELSEWHERE = re.compile(r"\bnotes/\w|\bseeds? 00\d|\bdecisions \d|\binvariants \d", re.I)
KEYS = {"F5"}
"""Keys on a keyboard, which look like a code."""
COMPLETE = "field "
"""The kind of code whose rows are a complete record, whether or not something cites each of them."""


def code_of(citation: str) -> str:
    return citation[0].lower() + citation[1:]


def split(citation: str) -> tuple[str, int]:
    """`ask C2` as `ask C` and 2."""
    stem = code_of(citation).rstrip("0123456789")
    return stem, int(citation[len(stem) :])


def cited_in(text: str) -> set[str]:
    """The codes that a text cites, with those inside its ranges."""
    found = {code_of(match[0]) for match in CITATION.finditer(text)}
    for match in RANGE.finditer(text):
        stem, first = split(match[1])
        _, last = split(match[2])
        found |= {f"{stem}{number}" for number in range(first, last)}
    return found


@cache
def files() -> list[tuple[str, str]]:
    """The path and the text of every file that may cite, without this one."""
    return [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in _paths()]


def _paths() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.suffix in SUFFIXES and "node_modules" not in path.parts
            if inside and path != Path(__file__):
                yield path


@cache
def anchors() -> dict[str, bool]:
    """Every code that is written down, and whether it is marked as background."""
    found: dict[str, bool] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in ANCHOR.finditer(text):
            code = f"{match[1]} {match[2].upper()}"
            assert code not in found, f"{code} is written down twice"
            # A row of a table is one line; a decision is its heading and the first line below it.
            entry = match[3] or text[match.end() :].split("\n\n")[1]
            found[code] = "*Background" in entry
    return found


def test_every_citation_resolves() -> None:
    missing = {
        f"{name}: {code}" for name, text in files() for code in cited_in(text) if code not in anchors()
    }
    assert not missing


def test_everything_written_down_is_cited_or_marked_as_background() -> None:
    pages = {str(page.relative_to(ROOT)) for page in PAGES}
    cited = set().union(*(cited_in(text) for name, text in files() if name not in pages))
    owed = {code for code in anchors() if not code.startswith(COMPLETE)}
    assert {code for code in owed if not anchors()[code]} == cited & owed


def test_every_code_says_its_kind() -> None:
    """`quirk C19` and not `C19`: several kinds use the same letters."""
    bare = {
        f"{name}: {code}"
        for name, text in files()
        for code in BARE.findall(CITATION.sub("", text))
        if code not in KEYS
    }
    assert not bare


def test_nothing_outside_of_the_repository_is_cited() -> None:
    found = {f"{name}: {match[0]}" for name, text in files() for match in ELSEWHERE.finditer(text)}
    assert not found


def test_the_decisions_are_numbered_without_a_gap() -> None:
    headings = re.findall(r'<a id="decision-(\d+)"></a>\n## (\d+)\. \S', PAGES[0].read_text(encoding="utf-8"))
    assert [(int(anchor), int(heading)) for anchor, heading in headings] == [(n, n) for n in range(1, 36)]


def test_links_to_a_code_have_its_anchor() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    links = re.findall(r"\[(\w+ \w+)\]\((\w+)\.md#([a-z]+-[a-z]?\d+)\)", page)
    assert links
    for cited, name, anchor in links:
        assert anchor == code_of(cited).lower().replace(" ", "-")
        assert f'<a id="{anchor}"></a>' in (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("It ends once (decision 5, ask A1).", {"decision 5", "ask A1"}),
        ("Spec N43: the one way.", {"spec N43"}),
        ("Field F5: the text of a sub-agent.", {"field F5"}),
        ("(ask C2 to ask C4)", {"ask C2", "ask C3", "ask C4"}),
        ("an editor of 12 lines, a client with 3 tools", set()),
    ],
)
def test_what_counts_as_a_citation(text: str, codes: set[str]) -> None:
    assert cited_in(text) == codes
