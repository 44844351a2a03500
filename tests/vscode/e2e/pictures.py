"""Pictures for the documentation. Tests take them; `make pictures` puts them where pages show them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
WANTED = "PENSTOCK_PICTURES"
"""The variable that says to replace the pictures of the documentation."""

LARGEST = 150_000
"""Bytes. The pictures of the extension travel with it."""

PAGES = {
    "docs/vscode.md": "docs/images/vscode-{name}.png",
    "vscode/README.md": "vscode/images/{name}.png",
}
"""Each page has its own: the extension is packed without the rest of the repository."""

PICTURES = {
    "chat": ("docs/vscode.md", "vscode/README.md"),
    "models": ("docs/vscode.md",),
    "effort": ("docs/vscode.md", "vscode/README.md"),
    "status": ("docs/vscode.md", "vscode/README.md"),
    "error": ("docs/vscode.md",),
    "recent": ("docs/vscode.md",),
}
"""Which pages show which picture."""


def places(name: str) -> dict[str, Path]:
    """Where a picture is kept, by the page that shows it."""
    return {page: ROOT / PAGES[page].format(name=name) for page in PICTURES[name]}


def keep(name: str, taken: Path) -> None:
    """Put a picture that was just taken into the documentation, if that is wanted."""
    targets = places(name).values()
    size = taken.stat().st_size
    assert size < LARGEST, f"the picture {name} has {size} bytes"
    for target in targets if os.environ.get(WANTED) == "1" else ():
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(taken, target)
