"""The help texts in docs/cli.md are the command's own. `python -m tests.cli.test_help` writes them anew."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from penstock.cli import COMMANDS
from tests.cli.running import penstock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"(?<=```text\n\$ )(penstock[^\n]*--help)\n.*?(?=```)", re.DOTALL)
"""A block of the page: the command as typed, an empty line, and what it prints."""


def current(page: str) -> str:
    """The page with every help text as it is now, 80 columns wide."""

    def printed(block: re.Match[str]) -> str:
        command = block[1]
        return f"{command}\n\n{penstock(*command.split()[1:], COLUMNS='80').stdout}"

    return BLOCK.sub(printed, page)


def test_the_help_texts_in_the_docs_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert BLOCK.findall(page) == ["penstock --help", *(f"penstock {name} --help" for name in COMMANDS)]
    wanted = current(page)
    if sys.version_info >= (3, 14):  # argparse breaks lines in its own way in every version; so far it is one
        page, wanted = " ".join(page.split()), " ".join(wanted.split())
    assert page == wanted, "run: python -m tests.cli.test_help"


def test_no_help_text_is_wider_than_80_columns() -> None:
    for arguments in ([], *([name] for name in COMMANDS)):
        text = penstock(*arguments, "--help", COLUMNS="80").stdout
        assert max(map(len, text.splitlines())) <= 80


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
