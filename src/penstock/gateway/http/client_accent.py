"""Choose a client's event naming (accent): by its request, its key or its User-Agent (decision 1)."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import ClientKey, Settings
from penstock.stream.accents import ACCENTS

HEADER = "x-penstock-accent"
DEFAULT = "openresponses"

KNOWN: dict[str, str] = {
    # User-Agent prefixes in lower case. Each of Codex's front ends has its own.
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
"""Clients known to expect an accent other than the specification's (spec S3)."""


def accent_for(
    settings: Settings, key: ClientKey | None, query: Mapping[str, str], headers: Mapping[str, str]
) -> str:
    """Return the name of the client's accent. An accent that the request names takes precedence."""
    for requested, param in ((query.get("accent"), "accent"), (headers.get(HEADER), HEADER)):
        if requested:
            return _checked(requested, param)
    if key is not None and key.accent:
        return key.accent
    if headers.get("originator", "").lower().startswith("codex"):
        return "openai"
    agent = headers.get("user-agent", "").lower()
    for table in (settings.accents, KNOWN):
        for prefix, accent in table.items():
            if agent.startswith(prefix.lower()):
                return accent
    return DEFAULT


def _checked(name: str, param: str) -> str:
    if name in ACCENTS:
        return name
    message = f"there is no event naming (accent) {name[:64]!r}; available: {', '.join(ACCENTS)}"
    raise RequestRefused(400, "unknown_accent", message, param=param)
