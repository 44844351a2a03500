"""Which accent a client reads: as it says, as its key says, or as its name tells (decision 1)."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import ClientKey, Settings
from penstock.stream.accents import ACCENTS

HEADER = "x-penstock-accent"
DEFAULT = "openresponses"

KNOWN: dict[str, str] = {
    # The beginning of a User-Agent, in small letters. Codex has one name for each of its faces.
    "codex": "openai",
    "openai/": "openai",
    "asyncopenai/": "openai",
    "azureopenai/": "openai",
    "asyncazureopenai/": "openai",
    "ai/": "openai",
    "ai-sdk/": "openai",
    "agents/": "openai",
    "langchain": "openai",
    "pydantic-ai": "openai",
    "opencode/": "openai",
    "githubcopilotchat/": "copilot",
    "github-copilot": "copilot",
    "vscode/": "copilot",
}
"""Clients that are known to read another accent than the specification's (spec S3)."""


def accent_for(
    settings: Settings, key: ClientKey | None, query: Mapping[str, str], headers: Mapping[str, str]
) -> str:
    """The name of an accent; what the request asks for by name comes first."""
    for asked, param in ((query.get("accent"), "accent"), (headers.get(HEADER), HEADER)):
        if asked:
            return _known(asked, param)
    if key is not None and key.accent:
        return key.accent
    if headers.get("originator", "").lower().startswith("codex"):
        return "openai"
    agent = headers.get("user-agent", "").lower()
    for table in (settings.accents, KNOWN):
        for beginning, accent in table.items():
            if agent.startswith(beginning.lower()):
                return accent
    return DEFAULT


def _known(name: str, param: str) -> str:
    if name in ACCENTS:
        return name
    message = f"there is no accent called {name[:64]!r}: there are {', '.join(ACCENTS)}"
    raise RequestRefused(400, "unknown_accent", message, param=param)
