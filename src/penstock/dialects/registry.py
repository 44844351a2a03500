"""The dialects by name. One is imported when it is asked for, and never because of another."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.dialects.plan import Dialect, ReadDialect

# No import of msgspec here: `penstock translate --help` lists the names, and is to stay cheap.

DIALECTS: dict[str, str] = {
    "chat": "Chat Completions, as OpenAI defined it and everybody else varies it",
    "responses": "another Responses endpoint, repaired rather than relayed",
    "anthropic": "Anthropic's Messages",
    "gemini": "Gemini's generateContent, as server-sent events or a JSON array",
    "ai_sdk": "stream parts of the AI SDK's language models, versions 2 to 4",
    "ollama": "Ollama's own API",
    "cohere": "Cohere's chat, version 2",
    "bedrock": "Bedrock's Converse, its events as JSON",
}
"""Every dialect, and what it is. `penstock.dialects.<name>` has it as `DIALECT`."""

RENDERED = frozenset({"chat", "responses", "anthropic", "gemini"})
"""The dialects in which a request can be written. The others are only read."""


def dialect(name: str) -> ReadDialect:
    """The dialect of this name, to be read; `LookupError` says which names are near."""
    if name not in DIALECTS:
        raise unknown("dialect", name, DIALECTS)
    found: ReadDialect = import_module(f"penstock.dialects.{name}").DIALECT
    return found


def rendered_dialect(name: str) -> Dialect:
    """The dialect of this name, to be read and rendered; `LookupError` for one that is only read."""
    if name not in RENDERED:
        raise unknown("dialect to render", name, RENDERED)
    found: Dialect = import_module(f"penstock.dialects.{name}").DIALECT
    return found


def unknown(what: str, name: str, known: Iterable[str]) -> LookupError:
    """The error for a name that is in no table: it offers the nearest, or all of them."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(known))}"
    return LookupError(f"there is no {what} called {name!r}: {advice}")
