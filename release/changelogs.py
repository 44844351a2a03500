"""The texts that a release changes: changelogs, and the files that name the version."""

from __future__ import annotations

import re
from typing import NamedTuple

from release.refusal import ReleaseRefused


class Changelog(NamedTuple):
    """A changelog: where it is, and how it writes its headings."""

    path: str
    unreleased: str
    released: str

    def release(self, text: str, version: str, date: str) -> str:
        """Return the text with the unreleased section under the version, and a new empty section."""
        self.entries(text)
        released = self.released.format(version=version, date=date)
        return text.replace(self.unreleased, f"{self.unreleased}\n\n{released}", 1)

    def entries(self, text: str) -> str:
        """Return the unreleased section without its heading; raise `ReleaseRefused` if it is empty."""
        before, heading, after = text.partition(f"{self.unreleased}\n")
        if not heading or before.count("\n## "):
            raise ReleaseRefused(f"{self.path} does not begin with the section `{self.unreleased}`")
        section = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0].strip()
        if not re.search(r"^- \S", section, re.MULTILINE):
            raise ReleaseRefused(
                f"{self.path} has no entries under `{self.unreleased}`: say what has changed"
            )
        return section


CHANGELOGS = (
    Changelog("CHANGELOG.md", "## [Unreleased]", "## [{version}] - {date}"),
    Changelog("vscode/CHANGELOG.md", "## Unreleased", "## {version} - {date}"),
)
PLACES = {
    "src/penstock/version.py": r'^VERSION = "{}"$',
    "vscode/package.json": r'^  "version": "{}",$',
    "docs/ci.md": r"^    rev: v{}$",
    "docs/doctor.md": r'^  "version": "{}",$',
}
"""The files with the version, and the one line of each."""


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers to compare; raise `ReleaseRefused` if it is none."""
    if not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", version):
        raise ReleaseRefused(f"{version!r} is not a version: write three numbers, such as 1.2.3")
    return tuple(map(int, version.split(".")))


def version_in(path: str, text: str) -> str:
    """Return the version that a file names."""
    found = re.findall(PLACES[path].format(r"([\d.]+)"), text, re.MULTILINE)
    if len(found) != 1:
        raise ReleaseRefused(f"{path} does not name one version in the form {PLACES[path]!r}")
    return str(found[0])


def with_version(path: str, text: str, version: str) -> str:
    """Return a file's text with another version."""
    old = version_in(path, text)
    line = re.compile(PLACES[path].format(re.escape(old)), re.MULTILINE)
    return line.sub(lambda found: found[0].replace(old, version), text)
