"""Limits learned from errors: an endpoint that refuses a conversation often says how long it may be.

They are stored in one file of the user, which several processes may use at a time. A file that cannot be used
never fails anything: then limits are learned for this process only, and `problem` and the log say why.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from penstock.models.info import LearnedLimit, ModelInfo, is_window
from penstock.net.urls import read_address
from penstock.shared_file import locked, read_start, replace_file

NAME = "limits.json"
VERSION = 1
MAX_LIMITS = 1_000
"""The maximum number of limits, in the file and in memory. Beyond that, the oldest are forgotten."""
MAX_FILE_SIZE = 1024 * 1024
_MAX_NAME_LENGTH = 500
"""Of an endpoint or a model, in characters: 1,000 limits must fit into the file."""

_log = logging.getLogger("penstock.models")
"""The editor host writes its messages in full: log no content."""

_Key = tuple[str, str]
"""An endpoint and a model."""


class _Entry(Struct, frozen=True):
    endpoint: str
    model: str
    limit: int
    learned: float
    refused: int | None = None
    stated: int | None = None


class _File(Struct, frozen=True):
    version: int
    limits: list[_Entry]


def limits_path(environment: Mapping[str, str]) -> Path | None:
    """Return the file of the user; None if the user has no home folder."""
    # The XDG specification says that a relative path must be ignored.
    if (folder := Path(environment.get("XDG_STATE_HOME", ""))).is_absolute():
        return folder / "penstock" / NAME
    home = environment.get("HOME") or environment.get("USERPROFILE")
    return Path(home) / ".local" / "state" / "penstock" / NAME if home else None


class LearnedLimits:
    """The learned limits of all endpoints, in a file; without a path, in memory only."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.problem = ""
        """Why the file is not used; empty if it is."""
        self._is_foreign = False
        self._has_unsaved = False
        """Whether this process may know limits that are not in the file."""
        self._clock = clock
        self._limits: dict[_Key, LearnedLimit] = {}
        self._stamp: tuple[int, ...] | None = None
        self._listeners: list[Callable[[str], None]] = []

    def at(self, base_url: str) -> EndpointLimits:
        """Return the limits of one endpoint."""
        return EndpointLimits(self, endpoint_of(base_url))

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the endpoint after each change that this object makes."""
        self._listeners.append(listener)

    def of(self, endpoint: str) -> dict[str, LearnedLimit]:
        """Return the limits of an endpoint by model, including those that other processes have learned."""
        self._read()
        return {model: limit for (place, model), limit in self._limits.items() if place == endpoint}

    def put(
        self, endpoint: str, model: str, limit: int, refused: int | None, stated: int | None = None
    ) -> bool:
        """Store the limit of a model; return whether it can be stored."""
        if not all(len(name) <= _MAX_NAME_LENGTH and name.isprintable() for name in (endpoint, model)):
            return False  # not a name, or one that JSON cannot contain
        with self._changing(endpoint):
            self._limits[endpoint, model] = LearnedLimit(limit, math.floor(self._clock()), refused, stated)
        return True

    def remove(self, endpoint: str, models: Iterable[str]) -> None:
        with self._changing(endpoint):
            for model in models:
                self._limits.pop((endpoint, model), None)

    @contextmanager
    def _changing(self, endpoint: str) -> Iterator[None]:
        with locked(self.path) if self.path else nullcontext():
            self._read(again=True)  # another process may have changed it without a visible trace
            yield
            self._limits = _newest(self._limits)
            self._write()
        for listener in self._listeners:
            listener(endpoint)

    def _read(self, *, again: bool = False) -> None:
        """Read the file if it has changed. If it was deleted, its limits are forgotten."""
        if self.path is None:
            return
        try:
            stamp = _stamp(self.path)
            if stamp == self._stamp and not again:
                return
            self._stamp = stamp
            stored = _decoded(self.path) if stamp else {}
        except OSError as error:
            self._is_foreign = self._has_unsaved = True
            self._report(f"cannot be read ({error.strerror or type(error).__name__})")
        except ValueError as error:
            self._is_foreign = self._has_unsaved = True
            self._report(f"is not used, because {error}: delete it")
        else:
            self._limits = {**stored, **self._limits} if self._has_unsaved else stored
            if self._is_foreign:
                self._is_foreign, self.problem = False, ""

    def _write(self) -> None:
        if self.path is None or self._is_foreign:  # never overwrite what something else wrote
            return
        entries = [
            _Entry(endpoint, model, limit.limit, limit.learned, limit.refused, limit.stated)
            for (endpoint, model), limit in self._limits.items()
        ]
        try:
            replace_file(self.path, msgspec.json.format(msgspec.json.encode(_File(VERSION, entries))))
            self._stamp, self._has_unsaved, self.problem = _stamp(self.path), False, ""
        except OSError as error:
            self._has_unsaved = True
            self._report(f"cannot be written ({error.strerror or type(error).__name__})")

    def _report(self, reason: str) -> None:
        problem = f"the file of learned limits, {self.path}, {reason}"
        if problem != self.problem:
            _log.warning("%s", problem)
        self.problem = problem


class EndpointLimits:
    """The learned limits of one endpoint."""

    def __init__(self, limits: LearnedLimits, endpoint: str) -> None:
        self.endpoint = endpoint
        self._limits = limits

    @property
    def problem(self) -> str:
        """Why the file is not used; empty if it is."""
        return self._limits.problem

    def all(self) -> dict[str, LearnedLimit]:
        """Return all limits by model."""
        return self._limits.of(self.endpoint)

    def learn(
        self, info: ModelInfo, limit: int | None, refused: int | None = None, stated: int | None = None
    ) -> bool:
        """Learn the limit that an error names; return whether it changes the window in `info`.

        `refused` is the size of the refused conversation. A limit that is not below the window, or below the
        refused size, is something else; but a window that is only a default, or learned, may also rise. A
        window that the user has set stays. `stated` is the window that the endpoint or a probe states: 0 if
        neither does, None if that is not known yet.
        """
        if limit is None or not is_window(limit) or (refused is not None and refused <= limit):
            return False
        source = info.sources.get("context_window")
        if source == "override" or (limit >= info.context_window and source not in ("default", "learned")):
            return False
        known = self.all().get(info.id)
        if known is not None and known.limit == limit and not known.is_outdated(stated):
            return limit != info.context_window  # it was learned since then
        return self._limits.put(self.endpoint, info.id, limit, refused, stated)

    def accept(self, model: str, tokens: int, estimate: int) -> bool:
        """Forget a model's limit if it has accepted more input than that; return whether it did.

        `tokens` is the endpoint's count, and `estimate` our own, which must be above the limit too: an
        endpoint that runs tools itself reports the sum of several calls, each of which was below it.
        """
        known = self.all().get(model)
        if known is None or min(tokens, estimate) <= known.limit:
            return False
        self._limits.remove(self.endpoint, [model])
        return True

    def forget(self, models: Iterable[str] | None = None) -> dict[str, LearnedLimit]:
        """Forget the limits of these models, or all; return what was forgotten."""
        known = self.all()
        chosen = known if models is None else {*models}
        forgotten = {model: limit for model, limit in known.items() if model in chosen}
        if forgotten:
            self._limits.remove(self.endpoint, forgotten)
        return forgotten


def endpoint_of(base_url: str) -> str:
    """Return the name of an endpoint in the file. It has no query, which may contain a key."""
    address = read_address(base_url)
    return f"{address.scheme}://{address.host_header}{address.path}".rstrip("/")


def _newest(limits: dict[_Key, LearnedLimit]) -> dict[_Key, LearnedLimit]:
    return dict(sorted(limits.items(), key=lambda pair: pair[1].learned)[-MAX_LIMITS:])


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes with the content of a file; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _decoded(path: Path) -> dict[_Key, LearnedLimit]:
    """Read the file. Raise `OSError` or, if it is not such a file, `ValueError`."""
    data = read_start(path, MAX_FILE_SIZE + 1)
    if len(data) > MAX_FILE_SIZE:
        raise ValueError("it is too large")
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("it does not contain limits") from None
    if file.version != VERSION:
        raise ValueError("another version of Penstock wrote it")
    return {
        (entry.endpoint, entry.model): LearnedLimit(entry.limit, entry.learned, entry.refused, entry.stated)
        for entry in file.limits[:MAX_LIMITS]
        if is_window(entry.limit) and math.isfinite(entry.learned)
    }
