"""The changelogs and the version of a release."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from release.changelogs import CHANGELOGS, PLACES, Changelog, numbers, version_in, with_version
from release.refusal import ReleaseRefused

from penstock.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
TEXT = "# Changelog\n\n{}\n\n### Added\n\n- something\n\n## 0.1.0\n\n- the rest\n"


@pytest.mark.parametrize("changelog", CHANGELOGS, ids=lambda changelog: changelog.path)
def test_the_unreleased_section_gets_the_version_and_a_new_one_begins(changelog: Changelog) -> None:
    text = TEXT.format(changelog.unreleased)
    assert changelog.entries(text) == "### Added\n\n- something"
    released = changelog.release(text, "1.2.3", "2026-11-19")
    heading = changelog.released.format(version="1.2.3", date="2026-11-19")
    assert released == TEXT.format(f"{changelog.unreleased}\n\n{heading}")
    with pytest.raises(ReleaseRefused, match="no entries"):
        changelog.entries(released)


@pytest.mark.parametrize("heading", ["## 0.2.0", "## Coming soon"])
def test_a_changelog_without_the_section_is_refused(heading: str) -> None:
    with pytest.raises(ReleaseRefused, match=r"does not begin with the section `## \[Unreleased\]`"):
        CHANGELOGS[0].entries(TEXT.format(heading))


@pytest.mark.parametrize("changelog", CHANGELOGS, ids=lambda changelog: changelog.path)
def test_our_changelogs_can_be_released(changelog: Changelog) -> None:
    text = (ROOT / changelog.path).read_text(encoding="utf-8")
    assert text.count(f"\n{changelog.unreleased}\n") == 1


@pytest.mark.parametrize("path", PLACES)
def test_every_place_of_the_version_is_found(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert version_in(path, text) == VERSION
    changed = with_version(path, text, "9.8.7")
    assert version_in(path, changed) == "9.8.7"
    assert len(changed.splitlines()) == len(text.splitlines())


def test_no_other_file_has_the_version() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    command = ["git", "grep", "-lF", VERSION, "--", "src", "docs", "vscode", "deploy", "*.md", "*.toml"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    changelogs = {changelog.path for changelog in CHANGELOGS}
    quoted = re.compile(rf'["v]{re.escape(VERSION)}\b')
    assert {path for path in found if quoted.search((ROOT / path).read_text())} - changelogs == {*PLACES}


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "v1.2.3", "1.2.3rc1", "01.2.3", "1.2.x", "٣.1.1"])
def test_only_three_numbers_are_a_version(text: str) -> None:
    with pytest.raises(ReleaseRefused, match="is not a version"):
        numbers(text)


def test_versions_are_compared_as_numbers() -> None:
    assert numbers("0.10.0") > numbers("0.9.9")


def test_a_place_without_the_line_is_refused() -> None:
    with pytest.raises(ReleaseRefused, match=r"docs/ci.md does not name one version"):
        version_in("docs/ci.md", "rev: main\n")
