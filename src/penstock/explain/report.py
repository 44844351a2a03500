"""All that is known of a turn in one value, for programs; and what was said in it, for those who ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.explain.account import Account
from penstock.explain.sentences import sentences
from penstock.explain.timeline import timeline
from penstock.store.contract import StoreArchive, StoredItem

_SPOKEN = ("text", "refusal", "arguments", "input", "output", "content", "summary", "transcript")
"""Fields of items and their parts in which something is said."""


def report(account: Account, content: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What `penstock explain --json` prints. `content` is what `content_lines` gave, or empty."""
    stored, snapshot = account.stored, account.snapshot
    attempts = [
        {"target": each.target, "model": each.model, "status": each.status, "code": each.code or None}
        for each in account.attempts
    ]
    return {
        "id": stored.id,
        "tenant": stored.tenant,
        "status": stored.status,
        "created_at": stored.created_at,
        "sentences": sentences(account),
        "timeline": [{"at": round(each.at, 6), "what": each.what} for each in timeline(account)],
        "attempts": attempts,
        "usage": snapshot.usage,
        "diagnostics": snapshot.diagnostics or [],
        "dropped_events": stored.dropped,
        "verdict": account.verdict if stored.verdict else None,
        **({"content": content} if content else {}),
    }


def content_lines(archive: StoreArchive, account: Account) -> dict[str, list[str]]:
    """The input and the output, a line for each item, and how upstreams put their failures."""
    tenant, id = account.stored.tenant, account.stored.id
    error = account.snapshot.error
    messages = [attempt.message for attempt in account.attempts if attempt.message]
    return {
        "input": _lines(archive.input(tenant, id)),
        "output": _lines(archive.output(tenant, id)),
        "failures": messages + ([error.message] if error is not None and error.message else []),
    }


def _lines(items: Iterable[StoredItem]) -> list[str]:
    return [_line(item.data) for item in items]


def _line(data: bytes) -> str:
    try:
        item = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return "an item that cannot be read"
    if not isinstance(item, dict):
        return "an item that cannot be read"
    words = [item.get(name) for name in ("role", "type", "name")]
    who = " ".join(word for word in words if isinstance(word, str) and word != "message")
    return f"{who or 'message'}: {' '.join(_spoken(item))}".rstrip(": ")


def _spoken(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _spoken(each)
        case dict():
            for name in _SPOKEN:
                yield from _spoken(value.get(name))
