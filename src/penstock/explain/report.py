"""The JSON output of `penstock explain`, and the prompts and answers for `--content`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.explain.account import Account
from penstock.explain.sentences import sentences
from penstock.explain.timeline import timeline
from penstock.store.contract import StoreArchive
from penstock.store.records import StoredItem

_TEXT_FIELDS = ("text", "refusal", "arguments", "input", "output", "content", "summary", "transcript")
"""Fields of items and their parts that contain content."""


def report(account: Account, content: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the object that `penstock explain --json` prints. `content`: from `content_lines`, or empty."""
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
        "ledger": account.record,
        **({"content": content} if content else {}),
    }


def content_lines(archive: StoreArchive, account: Account) -> dict[str, list[str]]:
    """Return the input and the output, one line per item, and the upstreams' error messages."""
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
    except (msgspec.DecodeError, RecursionError):
        return "(unreadable item)"
    if not isinstance(item, dict):
        return "(unreadable item)"
    words = [item.get(name) for name in ("role", "type", "name")]
    label = " ".join(word for word in words if isinstance(word, str) and word != "message")
    return f"{label or 'message'}: {' '.join(_texts(item))}".rstrip(": ")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for name in _TEXT_FIELDS:
                yield from _texts(value.get(name))
