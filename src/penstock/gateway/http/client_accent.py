"""Choose a client's event naming (accent): by its request, its key, the settings, or how it identifies itself
(decision 1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import ClientKey, Settings
from penstock.stream.accents import ACCENTS
from penstock.suggestions import advice

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
    "litellm/": "openai",
    "githubcopilotchat/": "copilot",
    "github-copilot": "copilot",
    "vscode/": "copilot",
}
"""Clients known to expect an accent other than the specification's (spec S3)."""
_LONGEST_PREFIX = max(map(len, KNOWN))


def accent_for(
    settings: Settings, key: ClientKey | None, query: Mapping[str, str], headers: Mapping[str, str]
) -> str:
    """Return the name of the client's accent. An accent that the request names takes precedence."""
    for requested, param in ((query.get("accent"), "accent"), (headers.get(HEADER), HEADER)):
        if requested:
            return _checked(requested, param)
    if key is not None and key.accent:
        return key.accent
    agent = headers.get("user-agent", "").lower()
    # A configured accent takes precedence over every kind of detection (field F4).
    configured = _by_prefix(settings.accents, agent) if settings.accents else ""
    return configured or _detected(agent, headers) or DEFAULT


def _detected(agent: str, headers: Mapping[str, str]) -> str:
    """Return the accent of a client that is recognised by its headers; "" for an unknown client."""
    if known := _known(agent[:_LONGEST_PREFIX]):
        return known
    if headers.get("originator", "").lower().startswith("codex"):
        return "openai"
    # Programs built on an SDK of OpenAI often have a User-Agent of their own (field F3).
    return "openai" if any(name.startswith("x-stainless-") for name in headers) else ""


@lru_cache(256)
def _known(agent: str) -> str:
    return _by_prefix(KNOWN, agent)


def _by_prefix(table: Mapping[str, str], agent: str) -> str:
    return next((accent for prefix, accent in table.items() if agent.startswith(prefix.lower())), "")


def _checked(name: str, param: str) -> str:
    if name in ACCENTS:
        return name
    message = f"there is no event naming (accent) {name[:64]!r}; {advice(name, ACCENTS)}"
    raise RequestRefused(400, "unknown_accent", message, param=param)
