"""What the documentation site shows: which pages there are, in which order, and where their links lead.

docs/README.md lists all pages in tables, which become the navigation of the site and its llms.txt. A link to
a file elsewhere in the repository, such as an example, becomes a link to a page that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

DOCS = "docs"
LIST = "docs/README.md"
HOME = "README.md"
ELSEWHERE = "repository"
"""The folder of the site with what is outside of docs/."""
PICTURES = {".png", ".svg"}
LANGUAGES = {
    ".css": "css",
    ".js": "js",
    ".json": "json",
    ".mjs": "js",
    ".py": "python",
    ".sh": "bash",
    ".toml": "toml",
}
LANGUAGES |= {".yaml": "yaml", ".yml": "yaml", ".service": "ini"}

_CODE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+).*?^(?P=indent)(?P=fence) *$"
    r"|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
_ROW = re.compile(r"^\| \[(.+?)\]\((\S+?)\)(?:, .*?)? \| (.*) \|$")
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A page as docs/README.md lists it."""

    path: str
    """In the repository."""
    description: str


@dataclass(frozen=True)
class Section:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Repository:
    root: Path

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The tables of docs/README.md."""
        found = []
        for part in self.read(LIST).split("\n## ")[1:]:
            title, _, text = part.partition("\n")
            rows = [match for line in text.splitlines() if (match := _ROW.match(line))]
            found.append(Section(title, tuple(Row(normpath(f"{DOCS}/{row[2]}"), row[3]) for row in rows)))
        return tuple(found)

    @cached_property
    def pages(self) -> tuple[str, ...]:
        """All pages of the site, by their paths in the repository."""
        listed = [row.path for section in self.sections for row in section.rows]
        in_docs = sorted(str(path.relative_to(self.root)) for path in (self.root / DOCS).rglob("*.md"))
        found = dict.fromkeys([HOME, *listed, *in_docs])
        waiting = list(found)
        while waiting:
            for target in self.targets(waiting.pop()):
                if target not in found and not target.startswith(f"{DOCS}/"):
                    found[target] = None
                    waiting.append(target)
        return tuple(path for path in found if path != LIST)

    def targets(self, path: str) -> Iterator[str]:
        """Yield the files of the repository that a page links to."""
        if path.endswith(".md"):
            for match in _LINK.finditer(_without_code(self.read(path))):
                target = normpath(f"{PurePosixPath(path).parent}/{match[2]}")
                if (self.root / target).is_file():
                    yield target

    def title(self, path: str) -> str:
        heading = _HEADING.search(self.read(path)) if path.endswith(".md") else None
        return heading[1].replace("`", "") if heading else path

    def markdown(self, path: str) -> str:
        """Return the text of a page, with the links of the site."""
        if not path.endswith(".md"):
            language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
            return f"# {path}\n\n````{language}\n{self.read(path).rstrip()}\n````\n"
        return _outside_code(
            self.read(path), lambda text: _LINK.sub(lambda match: self._moved(match, path), text)
        )

    def _moved(self, match: re.Match[str], page: str) -> str:
        """Return a link of a page as it is on the site."""
        target = normpath(f"{PurePosixPath(page).parent}/{match[2]}")
        if (self.root / target).is_dir():
            target = f"{target}/README.md"
        moved = relpath(on_site(target), PurePosixPath(on_site(page)).parent.as_posix())
        return f"{match[1]}{moved}{match[3]}"


def on_site(path: str) -> str:
    """Return the path of a file in the site's sources, from its path in the repository."""
    if path in (HOME, LIST):
        return "index.md"
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    is_shown_as_it_is = path.endswith(".md") or PurePosixPath(path).suffix in PICTURES
    return f"{ELSEWHERE}/{path}" if is_shown_as_it_is else f"{ELSEWHERE}/{path}.md"


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub derives it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def llms_txt(repository: Repository, summary: str) -> str:
    """Return the list of pages for language models (llmstxt.org). The links lead to the pages as Markdown."""
    lines = [
        "# Penstock",
        "",
        f"> {summary}",
        "",
        f"- [{repository.title(HOME)}](index.md): what it is, and a quick start",
    ]
    for section in repository.sections:
        lines += ["", f"## {section.title}", ""]
        lines += [
            f"- [{repository.title(row.path)}]({on_site(row.path)}): {row.description}"
            for row in section.rows
        ]
    return "\n".join(lines) + "\n"


def llms_full_txt(repository: Repository) -> str:
    """Return all pages in one text."""
    listed = [row.path for section in repository.sections for row in section.rows]
    return "\n\n".join(repository.read(path).strip() for path in dict.fromkeys([HOME, *listed])) + "\n"


def _without_code(markdown: str) -> str:
    return _CODE.sub("", markdown)


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change a text, but no code in it."""
    found, end = [], 0
    for match in _CODE.finditer(markdown):
        found += [change(markdown[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*found, change(markdown[end:])])
