"""The pages about clients in docs/clients/, and their examples."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.connect.guides import GUIDES

ROOT = Path(__file__).resolve().parents[2]
PAGES, EXAMPLES = ROOT / "docs" / "clients", ROOT / "examples" / "clients"
OTHERS = ("README.md", "results.md")
"""The files in the folder that are not about one client."""


def commands(client: str) -> list[str]:
    """Return the commands of the set-up: install the client, connect it, and mostly one that tries it."""
    return [line.removeprefix("$ ") for line in _block(client, "console").splitlines()]


def configuration(client: str) -> str:
    """Return the program or the contents of the file that the page shows."""
    return _block(client, GUIDES[client].language)


def example(client: str) -> Path:
    """Return the one example that the page links to."""
    (name,) = set(re.findall(r"\(\.\./\.\./examples/clients/([\w.]+)\)", _text(client)))
    return EXAMPLES / str(name)


def _text(client: str) -> str:
    return (PAGES / f"{client}.md").read_text()


def _block(client: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", _text(client), re.DOTALL | re.MULTILINE)
    return str(found)
