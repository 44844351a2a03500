"""Cache marks: Anthropic caches only prefixes of the prompt that are marked, and at most four of them.

A breakpoint of the client (`prompt_cache_breakpoint`) becomes a mark in its place. Without any, a request
that asks for caching gets marks where a conversation benefits most. A mark is not part of the cached prefix,
so it may move from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.protocol.request import CreateResponse
from penstock.stream.diagnostics import Diagnostics

Block = dict[str, Any]

MARK = "cache_control"
MOST_MARKS = 4

LIFETIMES: dict[str, dict[str, str]] = {
    "24h": {"ttl": "1h"},
    "1h": {"ttl": "1h"},
    "30m": {"ttl": "1h"},
    "5m": {},
    "in_memory": {},
    "in-memory": {},
}
"""Cache lifetime by `prompt_cache_options.ttl` or `prompt_cache_retention`: an hour, or the default of five
minutes. What the client asks for is a minimum, so half an hour becomes an hour."""

_MARKED_MESSAGES = 2
"""Messages that end a cached prefix: the previous turn's, read now, and this turn's, for the next one."""
_OPTIONS = ("mode", "ttl")
"""The fields of `prompt_cache_options` that are mapped."""


def placeholder() -> Block:
    """Return the mark to put on a block with a breakpoint. `mark_for_caching` completes it or removes it."""
    return {"type": "ephemeral"}


def mark_for_caching(body: Block, request: CreateResponse, diagnostics: Diagnostics) -> None:
    """Complete the marks in a rendered request, and add those that the client left to the server."""
    options = request.prompt_cache_options or {}
    for name in options:
        if name not in _OPTIONS and options[name]:
            _drop(f"prompt_cache_options.{name}", diagnostics)
    mark = {"type": "ephemeral", **_lifetime(request, diagnostics)}
    explicit = [block for block in _blocks(body) if MARK in block]
    is_implicit = options.get("mode") != "explicit"
    asks = bool(request.prompt_cache_key or request.prompt_cache_retention or options)
    chosen = _latest(explicit, MOST_MARKS - is_implicit, diagnostics)
    if explicit and is_implicit:
        chosen += _ends_of_user_messages(body, 1)
    elif is_implicit and asks:
        chosen = [*_system(body), *_ends_of_user_messages(body, _MARKED_MESSAGES)]
    for block in explicit:
        del block[MARK]
    for block in chosen:
        block[MARK] = mark


def _lifetime(request: CreateResponse, diagnostics: Diagnostics) -> dict[str, str]:
    ttl = (request.prompt_cache_options or {}).get("ttl")
    field, value = ("prompt_cache_options.ttl", ttl) if ttl else ("", request.prompt_cache_retention or "")
    known = LIFETIMES.get(value) if isinstance(value, str) else None
    if known is None and field:
        _drop(field, diagnostics)
    return known or {}


def _latest(marked: list[Block], most: int, diagnostics: Diagnostics) -> list[Block]:
    """Return the last marks: they cover the most of the prompt, and OpenAI keeps them as well."""
    if len(marked) > most:
        kept = f"the last {most} of {len(marked)} were kept"
        diagnostics.report("cache_breakpoints_dropped", f"there are too many cache breakpoints: {kept}")
    return marked[-most:]


def _blocks(body: Block) -> Iterator[Block]:
    """Yield every block that can have a mark, in the order of the prompt."""
    yield from body.get("tools", ())
    system = body.get("system")
    yield from system if isinstance(system, list) else ()
    for message in body["messages"]:
        for block in message["content"]:
            inner = block.get("content")
            yield from inner if isinstance(inner, list) else ()
            yield block


def _system(body: Block) -> list[Block]:
    """Return the last block of the system prompt, which must be a list of blocks to have a mark."""
    system = body.get("system")
    if isinstance(system, str):
        body["system"] = system = [{"type": "text", "text": system}]
    return system[-1:] if system else []


def _ends_of_user_messages(body: Block, count: int) -> list[Block]:
    from_user = [message for message in body["messages"] if message["role"] == "user"]
    return [message["content"][-1] for message in from_user[-count:]]


def _drop(field: str, diagnostics: Diagnostics) -> None:
    diagnostics.report("field_dropped", f"`{field}` cannot be sent to this upstream and was dropped")
