"""`penstock keys list`: the keys with their limits, their expiry and their last use."""

from __future__ import annotations

import json
import os
import textwrap
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.gateway.settings import ClientKey, Settings

_WIDTH = 80


def list_keys(path: Path, *, as_json: bool) -> int:
    """Print the keys of a file; raise `ConfigError` if it is invalid."""
    from penstock.gateway.config.file import load_settings

    terminal = Terminal()
    settings = load_settings(path, os.environ)
    used, problem = _last_used(settings)
    if as_json:
        terminal.result(json.dumps([_as_json(key, used) for key in settings.keys], indent=2))
    else:
        for line in _table(terminal, settings.keys, used):
            terminal.line(line)
    if not settings.keys:
        terminal.note(f"{path} has no keys; create one with penstock keys create NAME")
    elif problem:
        terminal.note(f"the last use is unknown: {problem}")
    return OK if settings.keys else PROBLEM


def _last_used(settings: Settings) -> tuple[dict[str, float] | None, str]:
    """Return when each key was last used; None, and why, if the store cannot tell."""
    from penstock.errors import StoreError
    from penstock.gateway.storage import NONE, default_path
    from penstock.store import open_archive

    if settings.store == NONE:
        return None, "this configuration stores nothing (server.store)"
    where = settings.store or default_path(os.environ)
    try:
        with open_archive(where) as archive:
            return archive.last_used(), ""
    except StoreError as error:
        return None, str(error)


def _table(terminal: Terminal, keys: tuple[ClientKey, ...], used: dict[str, float] | None) -> list[str]:
    """Return one line per key, and its limits below it: names and limits may be long."""
    rows = [("NAME", "EXPIRES", "LAST USE", "")]
    rows += [
        (terminal.clean(key.name), _expiry(key), _use(key, used), "admin" if key.admin else "")
        for key in keys
    ]
    width = max(len(name) for name, *_ in rows)
    lines = []
    for index, (name, expires, use, admin) in enumerate(rows if keys else []):
        lines.append(f"{name:<{min(width, 28)}}  {expires:<22}  {use:<16}  {admin}".rstrip())
        limits = "; ".join(_limits(keys[index - 1])) if index else ""
        lines += textwrap.wrap(terminal.clean(limits), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return lines


def _expiry(key: ClientKey) -> str:
    if key.expires_at is None:
        return "never"
    return ("expired " if key.expires_at <= time.time() else "") + _day(key.expires_at)[:10]


def _use(key: ClientKey, used: dict[str, float] | None) -> str:
    if used is None:
        return "unknown"
    return _day(used[key.name]) if key.name in used else "never"


def _day(seconds: float) -> str:
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


def _as_json(key: ClientKey, used: dict[str, float] | None) -> dict[str, object]:
    limits = key.limits
    return {
        "name": key.name,
        "admin": key.admin,
        "expires_at": key.expires_at,
        "expired": key.expires_at is not None and key.expires_at <= time.time(),
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
