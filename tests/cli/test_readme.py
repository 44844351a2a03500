"""What the README shows a newcomer is what happens."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli import streams
from tests.cli.running import penstock

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def pattern(shown: str) -> re.Pattern[str]:
    """`...` stands for what the page leaves out."""
    return re.compile(r"[^\n]*".join(re.escape(part) for part in shown.split("...")))


def test_the_first_stream_of_the_readme_gives_the_answer_shown() -> None:
    example = re.search(r"<<'END'\n(.*?)END\n\$ \.venv/bin/(penstock[^\n]*)\n(.*?)```", README, re.DOTALL)
    assert example
    stream, command, shown = example.groups()
    *arguments, _ = command.split()[1:]
    result = penstock(*arguments, "-", stdin=stream.encode())
    assert pattern(shown).fullmatch(result.stdout), result.stdout


def test_the_picture_of_the_readme_and_of_the_docs_is_what_is_drawn() -> None:
    stream = streams.as_sse(streams.interleaved())
    drawn = penstock("check", "--timeline", "-", stdin=stream, COLUMNS="80").stdout
    picture = drawn.removesuffix("\nlawful: 25 events\n")
    assert picture in README
    assert drawn in README
    assert picture in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
