"""The examples of the README produce the output shown."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.dialects.presets import PRESETS
from tests.cli import streams
from tests.cli.running import penstock

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def pattern(shown: str) -> re.Pattern[str]:
    """Return a pattern in which `...` matches any text."""
    return re.compile(r"[^\n]*".join(re.escape(part) for part in shown.split("...")))


def test_the_check_of_the_readme_prints_what_is_shown() -> None:
    example = re.search(r"<<'END'\n(.*?)END\n\$ \.venv/bin/(penstock[^\n]*)\n(.*?)```", README, re.DOTALL)
    assert example
    stream, command, shown = example.groups()
    *arguments, _ = command.split()[1:]
    result = penstock(*arguments, "-", stdin=stream.encode())
    assert pattern(shown).fullmatch(result.stdout), result.stdout


def test_the_translation_of_the_readme_prints_what_is_shown() -> None:
    stream = re.search(r"<<'END'\n(.*?)END\n", README, re.DOTALL)
    example = re.search(
        r"\$ \.venv/bin/(penstock translate[^\n]*) answer\.sse > lawful\.sse\n(.*?)"
        r"\$ \.venv/bin/penstock check lawful\.sse\n(.*?)```",
        README,
        re.DOTALL,
    )
    assert stream
    assert example
    command, diagnostics, verdict = example.groups()
    result = penstock(*command.split()[1:], "-", stdin=stream[1].encode())
    assert (result.returncode, result.stderr) == (1, diagnostics)
    assert penstock("check", "-", stdin=result.stdout.encode()).stdout == verdict


def test_the_number_of_vendors_is_the_number_of_presets() -> None:
    assert f"for {len(PRESETS)} vendors" in README


def test_the_timeline_of_the_readme_and_the_docs_is_current() -> None:
    stream = streams.as_sse(streams.interleaved())
    drawn = penstock("check", "--timeline", "-", stdin=stream, COLUMNS="80").stdout
    picture = drawn.removesuffix("\nlawful: 25 events\n")
    assert picture in README
    assert drawn in README
    assert picture in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
