"""The dialects by name. A dialect is imported only when it is requested."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, overload

from penstock.suggestions import unknown

if TYPE_CHECKING:
    from penstock.dialects.plan import Dialect, ReadDialect

# Do not import msgspec here: `penstock translate --help` lists the names and must start fast.

DIALECTS: dict[str, str] = {
    "chat": "Chat Completions, with the variations of all vendors",
    "responses": "another Responses endpoint, repaired rather than relayed",
    "anthropic": "Anthropic's Messages",
    "gemini": "Gemini's generateContent, as server-sent events or a JSON array",
    "ai_sdk": "stream parts of the AI SDK's language models, versions 2 to 4",
    "ollama": "Ollama's own API",
    "cohere": "Cohere's chat, version 2",
    "bedrock": "Bedrock's Converse, its events as JSON",
}
"""Every dialect with its description. `penstock.dialects.<name>.DIALECT` implements it."""

RENDERED = frozenset({"chat", "responses", "anthropic", "gemini"})
"""The dialects that can render a request. The others can only be read."""


@overload
def dialect(name: Literal["chat", "responses", "anthropic", "gemini"]) -> Dialect: ...
@overload
def dialect(name: str) -> ReadDialect: ...
def dialect(name: str) -> ReadDialect:
    """Return the dialect of this name; raise `LookupError` with similar names."""
    if name not in DIALECTS:
        raise LookupError(unknown("dialect", name, DIALECTS))
    found: ReadDialect = import_module(f"penstock.dialects.{name}").DIALECT
    return found


def rendered_dialect(name: str) -> Dialect:
    """Return the dialect of this name if it can render requests; raise `LookupError` otherwise."""
    if name not in RENDERED:
        raise LookupError(unknown("dialect to render", name, RENDERED))
    found: Dialect = import_module(f"penstock.dialects.{name}").DIALECT
    return found
