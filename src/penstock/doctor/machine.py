"""Checks what the gateway needs from this machine: its port, and the file of its store."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.doctor.findings import Detail, Finding, Status
from penstock.errors import InvalidRequestError, OpenResponsesError, StoreError
from penstock.formatting import format_size
from penstock.gateway.server import CannotListen, listen
from penstock.gateway.settings import Settings
from penstock.gateway.storage import NONE, default_path
from penstock.lenient import object_of, text_of
from penstock.net.urls import host_and_port
from penstock.store import is_in_use, is_url, location_of, open_archive

_PATIENCE = 3.0
"""Seconds for the answer of a program on this machine."""
_FEW_BYTES = 1_000_000_000
_TOO_FEW_BYTES = 50_000_000

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Addresses to listen on, and where they are reached from this machine."""


# The port


async def check_port(settings: Settings) -> Finding:
    """Try to listen on the port. If that fails, ask the program that uses it whether it is a gateway."""
    host, port = settings.host, settings.port
    if not port:
        return _port("ok", "port 0: the gateway will pick a free port")
    try:
        listen(host, port).close()
    except CannotListen as error:
        refused = str(error)
    else:
        return _port("ok", f"port {port} on {host} is free", port=port)
    version, is_answered = await _gateway_at(settings)
    if version:
        sentence = f"penstock {version} is already running on {host} port {port}"
        return _port("ok", sentence, port=port, running=version)
    if is_answered:
        return _port(
            "problem",
            f"another program uses port {port} on {host}",
            "stop that program, or choose another port: port under [server], or --port",
            port=port,
        )
    return _port("problem", refused, "set host and port under [server], or use --host and --port", port=port)


def _port(status: Status, sentence: str, fix: str = "", **details: Detail) -> Finding:
    return Finding(id="port", kind="port", status=status, sentence=sentence, fix=fix, details=details)


async def _gateway_at(settings: Settings) -> tuple[str, bool]:
    """Return the version of the gateway at the address, and whether anything accepts connections there."""
    place = host_and_port(_EVERY_ADDRESS.get(settings.host, settings.host), settings.port)
    try:
        config = ClientConfig(
            f"{'https' if settings.tls_cert else 'http'}://{place}/v1",
            connect_timeout=_PATIENCE,
            first_byte_timeout=_PATIENCE,
            idle_timeout=_PATIENCE,
            retries=0,
            ca_file=settings.tls_cert or None,
            proxy="",
        )
        async with OpenResponsesClient(config) as client:
            about = object_of(await client.fetch("/"))
    except InvalidRequestError:
        return "", False
    except OpenResponsesError as error:
        return "", error.phase != "connect" or error.code in ("tls_error", "certificate_error")
    return (text_of(about.get("version")) if about.get("name") == "penstock" else ""), True


# The store


def check_store(
    settings: Settings,
    environment: Mapping[str, str],
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Finding:
    """Look at the file of the store without changing it: nothing is created, migrated or locked for long."""
    if settings.store == NONE:
        return _store("ok", "responses are stored in memory only, until the gateway stops")
    if is_url(settings.store):
        return _check_database(settings.store)
    path = (Path(settings.store) if settings.store else default_path(environment)).expanduser()
    folder = next((each for each in path.parents if each.exists()), Path())
    if (problem := _unusable(path, folder)) is not None:
        return problem
    is_used = is_in_use(path)
    has_content = path.exists() and path.stat().st_size > 0
    if has_content and (problem := _unreadable(path)) is not None:
        return problem
    free = free_bytes(folder)
    if free < _FEW_BYTES:
        return _store(
            "problem" if free < _TOO_FEW_BYTES else "warning",
            f"the disk with {path} has only {format_size(free)} left",
            "free disk space, or use another disk: store under [server], or --store PATH",
            path=str(path),
            free_bytes=free,
        )
    if (readable := _readable_by_others(path)) is not None:
        return readable
    state = "is in use by a running gateway" if is_used else "can be used"
    if not path.exists():
        state = "will be created"
    sentence = f"{path} {state}; {format_size(free)} of disk space left"
    return _store("ok", sentence, path=str(path), free_bytes=free, in_use=is_used)


def _check_database(url: str) -> Finding:
    """Look at the database of the store without changing it."""
    location = location_of(url)
    try:
        with open_archive(url):
            return _store("ok", f"{location} can be used", path=location, in_use=is_in_use(url))
    except StoreError as error:
        if error.code in (StoreError.OLDER_VERSION, StoreError.EMPTY):
            return _store("ok", f"{location} can be used; its tables will be created", path=location)
        fix = "correct the URL: store under [server], or --store URL"
        return _store("problem", error.message, fix, path=location, code=error.code)


def _unusable(path: Path, folder: Path) -> Finding | None:
    """Return a finding if the file cannot be written, or the folder in which its folders would be created."""
    what = path if path.exists() else folder
    fix = "change its permissions, or use another file: store under [server], or --store PATH"
    if path.is_dir() or not folder.is_dir():
        fix = "use another file: store under [server], or --store PATH"
        sentence = f"{path} is a folder" if path.is_dir() else f"{folder} is not a folder"
        return _store("problem", sentence, fix, path=str(path))
    if not os.access(what, os.W_OK) or not os.access(folder, os.W_OK | os.X_OK):
        unwritable = what if not os.access(what, os.W_OK) else folder
        return _store("problem", f"{unwritable} is not writable", fix, path=str(path))
    return None


def _readable_by_others(path: Path) -> Finding | None:
    """Return a warning if others can read what is stored. Penstock creates its files for their owner only."""
    if os.name != "posix" or not path.exists():
        return None
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return None
    return _store(
        "warning",
        f"other users can read or change {path} (mode {mode:04o}), which contains prompts and answers",
        f"chmod 600 {shlex.quote(str(path))}, and the files next to it that end in -wal and -shm",
        path=str(path),
        mode=f"{mode:04o}",
    )


def _unreadable(path: Path) -> Finding | None:
    try:
        with open_archive(path):
            return None
    except StoreError as error:
        if error.code == StoreError.OLDER_VERSION:  # the gateway migrates it
            return None
        fix = "move the file aside, or use another one: store under [server], or --store PATH"
        if error.code == StoreError.NEWER_VERSION:
            fix = "update Penstock, or use another file: store under [server], or --store PATH"
        return _store("problem", error.message, fix, path=str(path), code=error.code)


def _store(status: Status, sentence: str, fix: str = "", **details: Detail) -> Finding:
    return Finding(id="store", kind="store", status=status, sentence=sentence, fix=fix, details=details)
