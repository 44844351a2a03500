"""Screenshots for the documentation. Tests take them; `make pictures` copies them to the pages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
WANTED = "PENSTOCK_PICTURES"
"""The environment variable to replace the screenshots of the documentation."""

LARGEST = 150_000
"""The largest size in bytes: the extension contains its screenshots."""

PAGES = {
    "docs/vscode.md": "docs/images/vscode-{name}.png",
    "vscode/README.md": "vscode/images/{name}.png",
    "vscode/package.json": "vscode/images/{name}.png",
}
"""The extension has its own copies: it is packed without the rest of the repository. `package.json` has the
walkthrough."""

PICTURES = {
    "chat": ("docs/vscode.md", "vscode/README.md"),
    "walkthrough": ("docs/vscode.md",),
    "connect": ("vscode/package.json",),
    "models": ("docs/vscode.md", "vscode/package.json"),
    "effort": ("docs/vscode.md", "vscode/README.md"),
    "status": ("docs/vscode.md", "vscode/README.md", "vscode/package.json"),
    "error": ("docs/vscode.md",),
    "recent": ("docs/vscode.md",),
}
"""The pages that show each screenshot."""


def places(name: str) -> dict[str, Path]:
    """Return the path of a screenshot for each page that shows it."""
    return {page: ROOT / PAGES[page].format(name=name) for page in PICTURES[name]}


def keep(name: str, taken: Path) -> None:
    """Copy a new screenshot into the documentation, if enabled."""
    targets = set(places(name).values())
    size = taken.stat().st_size
    assert size < LARGEST, f"the picture {name} has {size} bytes"
    for target in targets if os.environ.get(WANTED) == "1" else ():
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(taken, target)
