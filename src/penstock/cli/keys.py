"""`penstock keys`: manage the client keys in a gateway's `penstock.toml`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal

_USAGE = "penstock keys create|list|remove [NAME] [--config FILE]"

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
  penstock keys create prometheus --operator
  penstock keys list
  penstock keys remove laptop           reject this key from now on

A running gateway reloads its configuration on SIGHUP.

exit codes:
  0  success
  1  there is no key with that name, or there are no keys
  2  nothing was changed: wrong options, or a file that cannot be changed safely"""

_OWNER_ONLY = 0o600


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("action", metavar="create|list|remove", choices=("create", "list", "remove"), help="the action")
    add("name", metavar="NAME", nargs="?", help="the name of the client that uses the key")
    add("--config", metavar="FILE", help="the gateway's configuration file")
    add("--operator", action="store_true", help="with create: give the key access to all of /metrics")
    add("--print", action="store_true", help="with create: print the entry, do not write the file")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import ConfigError

    if (options.name is None) != (options.action == "list"):
        needed = "takes no NAME" if options.action == "list" else "needs a NAME"
        raise UsageError(f"penstock keys {options.action} {needed}: see penstock keys --help")
    for name in ("print", "operator"):
        if getattr(options, name) and options.action != "create":
            raise UsageError(f"--{name} works only with penstock keys create")
    try:
        if options.action == "create":
            return _create(options)
        path = _path(options)
        return _list(path) if options.action == "list" else _remove(path, options.name)
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
    key, entry = create_key(name, operator=options.operator)
    if options.print:
        sys.stderr.write(
            f"penstock: add this to penstock.toml, and give the key below to the client:\n\n{entry}\n"
        )
    else:
        path = _path(options)
        _append(path, name, entry)
        Terminal().note(f"added {name} to {path}. The key is shown only once: store it safely")
    print(key)
    return OK


def _append(path: Path, name: str, entry: str) -> None:
    from penstock.gateway.config.keys import with_key

    data = _read(path) if path.exists() else b""
    changed = with_key(data, name, entry, str(path))
    # Append to the existing file, which preserves its owner, mode and contents.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags, _OWNER_ONLY), "ab") as file:
            file.write(changed[len(data) :])
    except OSError as error:
        raise _unwritable(path, error) from None


def _list(path: Path) -> int:
    from penstock.gateway.config.keys import names_of

    terminal = Terminal()
    names = names_of(_read(path), str(path))
    for name in names:
        terminal.line(terminal.clean(name))
    if not names:
        terminal.note(f"{path} has no keys; create one with penstock keys create NAME")
    return OK if names else PROBLEM


def _remove(path: Path, name: str) -> int:
    from penstock.gateway.config.keys import names_of, without_key

    terminal = Terminal()
    data = _read(path)
    if name not in names_of(data, str(path)):
        terminal.note(f"{path} has no key called {name}; penstock keys list shows its keys")
        return PROBLEM
    _replace(path, without_key(data, name, str(path)))
    terminal.note(f"removed {name} from {path}")
    return OK


def _replace(path: Path, data: bytes) -> None:
    """Replace the file atomically: a truncated configuration would lock everyone out."""
    path = path.resolve()  # write through a symbolic link
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        status = path.stat()
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(status.st_mode & 0o7777)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _path(options: argparse.Namespace) -> Path:
    """Return the configuration file. If there is none, `create` creates it in the current folder."""
    from penstock.gateway.config.file import NAME, find_config

    found = Path(options.config) if options.config else find_config(Path(), os.environ)
    if found is None and options.action != "create":
        raise UsageError(f"no {NAME} in this folder or in ~/.config/penstock; pass --config FILE")
    return found or Path(NAME)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {error.strerror or error}")
