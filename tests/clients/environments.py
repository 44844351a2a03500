"""The clients at pinned versions, each set in an environment of its own outside of the repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.installing import cache_folder, locked, npm, run

REQUIREMENTS = Path(__file__).parent / "requirements"

PYTHON = ("main", "old", "more")
"""The Python environments. Each has a file in `requirements/` with the exact version of every package."""

NODE: dict[str, tuple[str, ...]] = {
    "codex": ("@openai/codex@0.166.0",),
    "node": (
        "ai@6.0.326",
        "@ai-sdk/openai@3.0.139",
        "@ai-sdk/open-responses@1.0.39",
        "openai@6.49.0",
        "zod@4.6.7",
    ),
    "opencode": ("opencode-ai@1.18.0",),
}
"""The Node environments and their packages."""


def installed(name: str) -> Path:
    """Return the folder of an environment, after installing it if it is missing."""
    packages = NODE[name] if name in NODE else (REQUIREMENTS / f"{name}.txt").read_text()
    folder = cache_folder("clients", [name, packages, sys.version_info[:2]])
    with locked(folder):
        if not (folder / "ready").exists():
            _install_node(folder, NODE[name]) if name in NODE else _install_python(folder, name)
            (folder / "ready").touch()
    return folder


def _install_python(folder: Path, name: str) -> None:
    # The constraints of this repository are not those of the clients.
    environment = {key: value for key, value in os.environ.items() if "CONSTRAINT" not in key}
    run([sys.executable, "-m", "venv", "venv"], folder)
    pip = folder / "venv" / "bin" / "pip"
    requirements = str(REQUIREMENTS / f"{name}.txt")
    run([pip, "install", "--quiet", "--no-deps", "--retries", "1", "-r", requirements], folder, environment)


def _install_node(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
    npm(folder, "install", *packages)


def python(name: str) -> Path:
    return installed(name) / "venv" / "bin" / "python"


def codex() -> Path:
    """Return Codex's own binary, which is in the package for this platform."""
    found = installed("codex") / "node_modules" / "@openai"
    return next(found.glob("codex-*/vendor/*/bin/codex"))
