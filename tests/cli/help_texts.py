"""The help texts in docs/cli.md. `python -m tests.cli.help_texts` updates them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.running import penstock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"(?<=```text\n\$ )(penstock[^\n]*--help)\n.*?(?=```)", re.DOTALL)
"""A block of the page: the command, an empty line, and its output."""


def updated(page: str) -> str:
    """Return the page with the current help texts, 80 columns wide."""

    def block_for(block: re.Match[str]) -> str:
        command = block[1]
        return f"{command}\n\n{penstock(*command.split()[1:], COLUMNS='80').stdout}"

    return BLOCK.sub(block_for, page)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
