"""`penstock --help` and the help of every command."""

from __future__ import annotations

import sys

from penstock.cli import COMMANDS
from tests.cli.help_texts import BLOCK, PAGE, updated
from tests.cli.running import penstock


def test_the_help_texts_in_the_docs_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert BLOCK.findall(page) == ["penstock --help", *(f"penstock {name} --help" for name in COMMANDS)]
    expected = updated(page)
    if sys.version_info >= (3, 14):  # argparse wraps lines differently in every version
        page, expected = " ".join(page.split()), " ".join(expected.split())
    assert page == expected, "run: python -m tests.cli.help_texts"


def test_no_help_text_is_wider_than_80_columns() -> None:
    for arguments in ([], *([name] for name in COMMANDS)):
        text = penstock(*arguments, "--help", COLUMNS="80").stdout
        assert max(map(len, text.splitlines())) <= 80
