"""Scripts that take the place of a client's program."""

from __future__ import annotations

from pathlib import Path


def script(path: Path, *lines: str) -> str:
    """Write an executable script and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)
