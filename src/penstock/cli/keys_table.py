"""`penstock keys list`: the keys with their limits, their expiry and their last use."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM
from penstock.cli.layout import Column, TableLayout
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.gateway.settings import ClientKey

_COLUMNS = (Column("name"), Column("expires"), Column("last use"), Column(""))
_INDENT = "  "

LastUse = dict[str, float] | None
"""When each key was last used, by its name; None if the store cannot be read."""


def list_keys(path: Path, *, as_json: bool) -> int:
    """Print the keys of a file; raise `ConfigError` if they are invalid."""
    from penstock.gateway.config.file import load_keys

    terminal, now = Terminal(), time.time()
    keys, store = load_keys(path, os.environ)
    used, problem = _last_use(store)
    if as_json:
        terminal.result(json.dumps([_as_json(key, used, now) for key in keys], indent=2))
    else:
        print_keys(keys, used, now, terminal)
    if not keys:
        terminal.note(f"{path} has no keys; create one with penstock keys create NAME")
    elif problem:
        terminal.note(f"the last use is unknown: {problem}")
    return OK if keys else PROBLEM


def _last_use(store: str) -> tuple[LastUse, str]:
    """Return when each key was last used; None, and why, if the store cannot be read."""
    from penstock.errors import StoreError
    from penstock.gateway.storage import NONE, default_path
    from penstock.store import open_archive

    if store == NONE:
        return None, "this configuration stores nothing (server.store)"
    try:
        with open_archive(store or default_path(os.environ)) as archive:
            return archive.last_used(), ""
    except StoreError as error:
        return None, str(error)


def print_keys(keys: tuple[ClientKey, ...], used: LastUse, now: float, terminal: Terminal) -> None:
    """Print a row for each key, and its limits below it."""
    rows = [
        (terminal.clean(key.name), _expiry(key, now), _use(key, used), "admin" if key.admin else "")
        for key in keys
    ]
    layout = TableLayout(_COLUMNS, rows, terminal.room)
    if rows and not layout.is_stacked:
        terminal.line(terminal.paint(layout.head(), "dim"))
    for key, row in zip(keys, rows, strict=True):
        for line in layout.lines(row):
            terminal.line(line)
        if limits := "; ".join(_limits(key)):
            terminal.wrapped(terminal.clean(limits), _INDENT, first=_INDENT)


def _expiry(key: ClientKey, now: float) -> str:
    if key.expires_at is None:
        return "never"
    return ("expired " if key.expires_at <= now else "") + _minute(key.expires_at)


def _use(key: ClientKey, used: LastUse) -> str:
    if used is None:
        return "unknown"
    return _minute(used[key.name]) if key.name in used else "never"


def _minute(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _limits(key: ClientKey) -> list[str]:
    limits = key.limits
    rates = [
        (limits.requests_per_minute, "requests/minute"),
        (limits.tokens_per_minute, "tokens/minute"),
        (limits.concurrent_turns, "concurrent turns"),
    ]
    found = [f"{number} {what}" for number, what in rates if number is not None]
    for budget in limits.budgets:
        unit = "USD" if budget.unit == "cost" else "tokens"
        found.append(f"{budget.amount:.15g} {unit}/{budget.period}")
    return [*([f"models {', '.join(key.models)}"] if key.models else []), *found]


def _as_json(key: ClientKey, used: LastUse, now: float) -> dict[str, object]:
    limits = key.limits
    return {
        "name": key.name,
        "admin": key.admin,
        "expires_at": key.expires_at,
        "expired": key.expires_at is not None and key.expires_at <= now,
        "models": list(key.models),
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
        "concurrent_turns": limits.concurrent_turns,
        "budgets": [
            {"amount": each.amount, "unit": each.unit, "period": each.period} for each in limits.budgets
        ],
        "last_used_at": None if used is None else used.get(key.name),
        "last_use_known": used is not None,
    }
