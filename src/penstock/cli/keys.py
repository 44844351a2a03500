"""`penstock keys`: the keys of those who may use a gateway, in its `penstock.toml`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.terminal import Terminal

_USAGE = "penstock keys create|list|remove [NAME] [--config FILE]"

_DESCRIPTION = """\
The keys of those who may use a gateway. Its file has a hash of each; the key
itself is shown once, when it is made. Without --config the file is the one that
`penstock serve` would read: penstock.toml here, or else among your settings.
`create` starts one here where there is none."""

_EPILOG = """\
examples:
  penstock keys create laptop           a new key; standard output has it alone
  penstock keys create ci --print       write no file, show what belongs into it
  penstock keys create prometheus --operator
  penstock keys list
  penstock keys remove laptop           this key is refused from now on

A gateway that runs reads its file again when it gets SIGHUP.

exit codes:
  0  done
  1  there is no key of that name, or none at all
  2  nothing was changed: wrong options, or a file that cannot be changed safely"""

_OURS_ALONE = 0o600


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("action", metavar="create|list|remove", choices=("create", "list", "remove"), help="what to do")
    add("name", metavar="NAME", nargs="?", help="whose key it is, or what for")
    add("--config", metavar="FILE", help="the gateway's configuration")
    add("--operator", action="store_true", help="with create: a key that sees all of /metrics")
    add("--print", action="store_true", help="with create: only show the entry, write no file")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import ConfigError

    if (options.name is None) != (options.action == "list"):
        needed = "takes no NAME" if options.action == "list" else "needs a NAME"
        raise UsageError(f"penstock keys {options.action} {needed}: see penstock keys --help")
    for name in ("print", "operator"):
        if getattr(options, name) and options.action != "create":
            raise UsageError(f"--{name} is for penstock keys create")
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
            f"penstock: this belongs into penstock.toml, the key below to its owner:\n\n{entry}\n"
        )
    else:
        path = _path(options)
        _append(path, name, entry)
        Terminal().note(f"{path} lets {name} in, with this key. It is shown only now: keep it safe")
    print(key)
    return OK


def _append(path: Path, name: str, entry: str) -> None:
    from penstock.gateway.config.keys import with_key

    data = _read(path) if path.exists() else b""
    changed = with_key(data, name, entry, str(path))
    # At the end of the file as it is, so that its owner, its mode and everything above stay.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags, _OURS_ALONE), "ab") as file:
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
        terminal.note(f"{path} has no keys; penstock keys create NAME makes one")
    return OK if names else FOUND


def _remove(path: Path, name: str) -> int:
    from penstock.gateway.config.keys import names_of, without_key

    terminal = Terminal()
    data = _read(path)
    if name not in names_of(data, str(path)):
        terminal.note(f"{path} has no key called {name}; penstock keys list shows those that it has")
        return FOUND
    _replace(path, without_key(data, name, str(path)))
    terminal.note(f"{name} was removed from {path}")
    return OK


def _replace(path: Path, data: bytes) -> None:
    """All of it or nothing: a configuration that was cut in the middle would lock everybody out."""
    path = path.resolve()  # a link stays one
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        status = path.stat()
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OURS_ALONE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            os.chown(beside, status.st_uid, status.st_gid)
        beside.chmod(status.st_mode & 0o7777)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _path(options: argparse.Namespace) -> Path:
    """The file that is meant. Where there is none, `create` makes it here."""
    from penstock.gateway.config.file import NAME, find_config

    found = Path(options.config) if options.config else find_config(Path(), os.environ)
    if found is None and options.action != "create":
        raise UsageError(f"there is no {NAME} here, nor among your settings; --config FILE names one")
    return found or Path(NAME)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror or error}")
