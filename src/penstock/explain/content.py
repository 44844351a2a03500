"""What was said in a turn, in short: shown only to those who ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from penstock.explain.account import Account
from penstock.store.contract import StoreArchive, StoredItem

_SPOKEN = ("text", "refusal", "arguments", "input", "output", "content", "summary", "transcript")
"""Fields of items and their parts in which something is said."""


def said(archive: StoreArchive, account: Account) -> dict[str, list[str]]:
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
