"""The clients at pinned versions, each set in an environment of its own outside of the repository."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from msgspec import Struct

from tests.installing import cache_folder, locked, npm, run

DRIVERS = Path(__file__).parent / "drivers"
REQUIREMENTS = Path(__file__).parent / "requirements"
"""A file for each Python environment, with the exact version of every package."""


NODE: dict[str, tuple[str, ...]] = {
    "codex": ("@openai/codex@0.166.0",),
    "node": (
        "ai@6.0.326",
        "@ai-sdk/openai@3.0.139",
        "@ai-sdk/open-responses@1.0.39",
        "openai@6.49.0",
        "zod@4.6.7",
    ),
    "opencode": ("opencode-ai@1.18.33",),
}
"""The Node environments and their packages."""


class Client(Struct, frozen=True):
    environment: str
    package: str
    driver: str = ""
    """The script that runs its cases; none for a program of its own."""


CLIENTS: dict[str, Client] = {
    "Codex CLI": Client("codex", "@openai/codex"),
    "openai-python": Client("main", "openai", "openai_python.py"),
    "openai-python, a year old": Client("old", "openai", "openai_python.py"),
    "openai-agents": Client("main", "openai-agents", "agents_sdk.py"),
    "LangChain": Client("main", "langchain-openai", "langchain_cases.py"),
    "LangGraph": Client("main", "langgraph", "langchain_cases.py"),
    "pydantic-ai": Client("main", "pydantic-ai-slim", "pydantic_agents.py"),
    "@ai-sdk/openai": Client("node", "@ai-sdk/openai", "ai_sdk.mjs"),
    "@ai-sdk/open-responses": Client("node", "@ai-sdk/open-responses", "ai_sdk.mjs"),
    "openai-node": Client("node", "openai", "openai_node.mjs"),
    "llm": Client("frameworks", "llm", "llm_cases.py"),
    "agent-framework": Client("frameworks", "agent-framework-openai", "agent_framework_cases.py"),
    "LlamaIndex": Client("adapters", "llama-index-llms-openai", "llama_index_cases.py"),
    "LiteLLM SDK": Client("adapters", "litellm", "litellm_cases.py"),
    "opencode": Client("opencode", "opencode-ai"),
}
"""The clients in the order of the table of results."""


def version(client: str) -> str:
    """Return the pinned version of a client."""
    found = CLIENTS[client]
    pins = NODE.get(found.environment)
    if pins is None:
        pins = tuple((REQUIREMENTS / f"{found.environment}.txt").read_text().splitlines())
    named = (re.split("(?<!^)@|==", pin) for pin in pins)
    return next(version for package, version in named if package == found.package)


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


def command(client: str, folder: Path) -> list[str | Path]:
    """Return the command of a client's driver in its environment."""
    script = DRIVERS / CLIENTS[client].driver
    if script.suffix == ".mjs":
        return ["node", script, folder]
    return [folder / "venv" / "bin" / "python", script]


def codex() -> Path:
    """Return Codex's own binary, which is in the package for this platform."""
    found = installed("codex") / "node_modules" / "@openai"
    return next(found.glob("codex-*/vendor/*/bin/codex"))


def opencode() -> Path:
    return next((installed("opencode") / "node_modules").glob("opencode-*[46]/bin/opencode"))
