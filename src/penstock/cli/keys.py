"""`penstock keys`: manage the client keys in a gateway's `penstock.toml`."""

from __future__ import annotations

import argparse
import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal, error_line
from penstock.suggestions import advice

_USAGE = "penstock keys create|list|revoke|rotate [NAME] [options]"

_DESCRIPTION = """\
Manage the keys of a gateway's clients. The configuration file contains only a
hash of each key; the key itself is shown once, when it is created. Without
--config, the file is the one that `penstock serve` would read: the one that
PENSTOCK_CONFIG names, or penstock.toml in the current folder or in
~/.config/penstock. If there is none, `create` creates it in the current folder."""

_EPILOG = """\
examples:
  penstock keys create laptop           print a new key to standard output
  penstock keys create ci --print       print the entry, do not write the file
  penstock keys create anna --expires 90d --models demo,gpt-*
  penstock keys create bot --tokens-per-minute 50000 --budget "20 USD/month"
  penstock keys create ops --admin
  penstock keys list
  penstock keys rotate laptop --grace 24h
  penstock keys revoke laptop           reject this key from now on

A running gateway applies the change within about a second. The name of a key
is its tenant: after `rotate`, the new key sees the same stored responses.
docs/keys.md explains limits, budgets and expiry.

exit codes:
  0  success
  1  there is no key with that name, or there are no keys
  2  nothing was changed: wrong options, or a file that cannot be changed safely"""

_OWNER_ONLY = 0o600
_ACTIONS = ("create", "list", "revoke", "rotate", "remove")
RATES = ("requests_per_minute", "tokens_per_minute", "concurrent_turns")
_ONLY = {
    **dict.fromkeys(("print", "admin", "expires", "models", *RATES, "budget"), "create"),
    "json": "list",
    "grace": "rotate",
}
"""The actions of options that work only with one."""
_DURATION = re.compile(r"([0-9]{1,5})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("action", metavar="create|list|revoke|rotate", choices=_ACTIONS, help="the action")
    add("name", metavar="NAME", nargs="?", help="the name of the client that uses the key")
    add("--config", metavar="FILE", help="the gateway's configuration file")
    add("--json", action="store_true", help="with list: print JSON")
    add("--grace", metavar="TIME", help="with rotate: accept the old key for this long, such as 24h")
    creating = parser.add_argument_group("with create")
    add = creating.add_argument
    add("--expires", metavar="TIME", help="when the key expires: 90d, 24h or the last day, 2027-01-31")
    add("--models", metavar="A,B", help="the models that the key may use; gpt-* means all that begin so")
    for name in RATES:
        what = name.replace("_", " ").removesuffix(" per minute")
        rate = "at a time" if name == "concurrent_turns" else "per minute"
        add(f"--{name.replace('_', '-')}", metavar="N", type=int, help=f"at most N {what} {rate}")
    add("--budget", metavar="BUDGET", action="append", help='such as "20 USD/month" or "1000000 tokens/day"')
    add("--admin", action="store_true", help="let the key see the turns and metrics of all keys")
    add("--operator", dest="admin", action="store_true", help=argparse.SUPPRESS)
    add("--print", action="store_true", help="print the entry, do not write the file")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import ConfigError
    from penstock.shared_file import folder_locked

    if (options.name is None) != (options.action == "list"):
        needed = "takes no NAME" if options.action == "list" else "needs a NAME"
        raise UsageError(f"penstock keys {options.action} {needed}: see penstock keys --help")
    for name, action in _ONLY.items():
        if getattr(options, name) not in (None, False) and options.action != action:
            raise UsageError(f"--{name.replace('_', '-')} works only with penstock keys {action}")
    try:
        if options.action == "create":
            return _create(options)
        path = _path(options)
        if options.action == "list":
            from penstock.cli.keys_table import list_keys

            return list_keys(path, as_json=options.json)
        with folder_locked(path.resolve().parent):  # a command that runs at the same time must not undo this
            return _rotate(path, options) if options.action == "rotate" else _revoke(path, options.name)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _create(options: argparse.Namespace) -> int:
    from penstock.gateway.config.keys import key_name
    from penstock.gateway.config.values import InvalidValue
    from penstock.gateway.http.access import create_key

    try:
        name = key_name(options.name)
    except InvalidValue as wrong:
        raise UsageError(f"NAME {wrong}") from None
    key, entry = create_key(name, **_settings(options))
    _check_entry(entry)
    if options.print:
        error_line(f"penstock: add this to penstock.toml, and give the key below to the client:\n\n{entry}")
    else:
        path = _path(options)
        _append(path, name, entry)
        Terminal().note(f"added {name} to {path}. The key is shown only once: store it safely")
    Terminal().line(key)
    return OK


def _settings(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings of the new entry; those that are not given are omitted."""
    from penstock.gateway.config.values import Literal

    models = [name.strip() for name in options.models.split(",")] if options.models is not None else None
    found: dict[str, object] = {
        "expires": Literal(_expiry(options.expires)) if options.expires is not None else None,
        "models": models,
        **{name: getattr(options, name) for name in RATES},
        "budget": options.budget[0] if options.budget and len(options.budget) == 1 else options.budget,
        "admin": options.admin or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _check_entry(entry: str) -> None:
    """Raise `UsageError` if an option has an invalid value, in the words of the configuration."""
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import read_settings

    try:
        read_settings(entry, file="", environment={})
    except ConfigError as error:
        raise UsageError("; ".join(_as_option(each.message) for each in error.errors)) from None


def _as_option(message: str) -> str:
    """Return the message about a setting of the new entry with the name of its option."""
    name, _, rest = message.removeprefix("keys[0].").partition(": ")
    return f"--{name.partition('[')[0].replace('_', '-')}: {rest}"


def _expiry(text: str) -> str:
    """Return the date or time of an option as in TOML."""
    now = datetime.now(UTC)
    if found := _DURATION.fullmatch(text.strip()):
        return _moment(now + int(found[1]) * _UNITS[found[2]])
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            "--expires must be a time such as 90d or 24h, or a date such as 2027-01-31"
        ) from None
    if day < now.date():
        raise UsageError("--expires is in the past: use a later date")
    return day.isoformat()


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _append(path: Path, name: str, entry: str) -> None:
    from penstock.gateway.config.key_edits import with_key
    from penstock.shared_file import folder_locked

    with folder_locked(path.resolve().parent):
        data = _read(path) if path.exists() else b""
        changed = with_key(data, name, entry, str(path))
        # Append to the existing file, which preserves its owner, mode and contents.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        try:
            with os.fdopen(os.open(path, flags, _OWNER_ONLY), "ab") as file:
                file.write(changed[len(data) :])
        except OSError as error:
            raise _unwritable(path, error) from None


def _revoke(path: Path, name: str) -> int:
    from penstock.gateway.config.key_edits import names_of, without_key

    data = _read(path)
    if _is_missing(path, data, name):
        return PROBLEM
    changed = without_key(data, name, str(path))
    _replace(path, changed)
    terminal = Terminal()
    terminal.note(f"removed {name} from {path}")
    if not names_of(changed, str(path)):
        terminal.note(f"{path} has no keys now: a gateway on 127.0.0.1 accepts every client on its machine")
    return OK


def _rotate(path: Path, options: argparse.Namespace) -> int:
    from penstock.gateway.config.key_edits import with_new_hash
    from penstock.gateway.http.access import new_key

    until, data = "", _read(path)
    if options.grace is not None:
        found = _DURATION.fullmatch(options.grace.strip())
        if found is None:
            raise UsageError("--grace must be a time such as 24h or 7d")
        until = _moment(datetime.now(UTC) + int(found[1]) * _UNITS[found[2]])
    if _is_missing(path, data, options.name):
        return PROBLEM
    key, hash = new_key()
    _replace(path, with_new_hash(data, options.name, hash, until, str(path)))
    old = f"The old key works until {until}" if until else "The old key is no longer accepted"
    Terminal().note(f"replaced the key of {options.name} in {path}. {old}")
    Terminal().line(key)
    return OK


def _is_missing(path: Path, data: bytes, name: str) -> bool:
    from penstock.gateway.config.key_edits import names_of

    names = names_of(data, str(path))
    if name in names:
        return False
    Terminal().note(f"{path} has no key called {name}; {advice(name, names)}")
    return True


def _replace(path: Path, data: bytes) -> None:
    """Replace the file atomically: a truncated configuration would lock everyone out."""
    from penstock.shared_file import replace_keeping_mode

    try:
        replace_keeping_mode(path, data)
    except OSError as error:
        raise _unwritable(path, error) from None


def _path(options: argparse.Namespace) -> Path:
    """Return the configuration file. If there is none, `create` creates it in the current folder."""
    from penstock.gateway.config.file import NAME, find_config

    found = Path(options.config) if options.config else find_config(Path(), os.environ)
    if found is None and options.action != "create":
        raise UsageError(f"no {NAME} in this folder or in ~/.config/penstock; pass --config FILE")
    return found or Path(NAME)


def _read(path: Path) -> bytes:
    from penstock.gateway.config.file import named_by_variable

    try:
        return path.read_bytes()
    except OSError as error:
        named = named_by_variable(path, os.environ)
        raise UsageError(f"cannot read {path}: {error.strerror or error}{named}") from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {error.strerror or error}")
