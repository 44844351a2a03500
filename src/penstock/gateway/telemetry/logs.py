"""The gateway's log: one line per turn, without any content of it.

It contains no prompts, no output and no keys, and no vendor messages or exception texts either, which may
repeat them (ask K3). Failures are logged as codes and as lines of source code.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from traceback import extract_tb
from typing import TextIO

from penstock.formatting import printable, wrapped
from penstock.gateway.errors import RequestRefused
from penstock.gateway.turn.verdict import Verdict

log = logging.getLogger("penstock.gateway")

_BAD = ("failed", "refused")
_OURS = "penstock.gateway"
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.DEBUG: "\x1b[2m"}
_PLAIN = "\x1b[0m"
_WIDE = 60
"""Columns from which on the wrapped part of a message is below its beginning."""
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


def set_up(
    level: str, stream: TextIO | None = None, width: Callable[[], int] | None = None, worker: int = 0
) -> None:
    """Send every log record of the process to `stream`: readable on a terminal, JSON lines elsewhere.
    `width` returns the columns of the terminal; without it, lines are not wrapped. `worker` is the number of
    this process if there are several."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        Readable(colour=True, width=width, worker=worker) if stream.isatty() else JsonLines(worker=worker)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(level.upper())
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # it logs vendor messages


def log_verdict(verdict: Verdict) -> None:
    level = logging.WARNING if verdict.outcome in _BAD else logging.INFO
    if log.isEnabledFor(level):
        log.log(level, "%s", verdict.sentence(), extra={"fields": {"event": "turn", **verdict.fields()}})


def log_refused(refused: RequestRefused, method: str, path: str, request_id: str) -> None:
    """Log a request that was refused before its turn."""
    fields = {
        "event": "refused",
        "request_id": request_id,
        "method": method,
        "path": path[:200],
        "status": refused.status,
        "code": refused.code,
    }
    message = f"{method} {path[:200]}: {refused.status} {refused.code} [{request_id}]"
    log.info("%s", message, extra={"fields": fields})


def log_fault(error: BaseException, request_id: str) -> None:
    """Log a bug of ours: the exception's type and location, without its message."""
    where = _where(error)
    fields = {"event": "fault", "request_id": request_id, "kind": type(error).__name__, "where": where}
    message = f"internal error in the gateway: {type(error).__name__} at {' < '.join(where)} [{request_id}]"
    log.error("%s", message, extra={"fields": fields})


def _where(error: BaseException) -> list[str]:
    frames = extract_tb(error.__traceback__)[-8:]
    return [f"{frame.filename.rpartition('penstock/')[2]}:{frame.lineno}" for frame in reversed(frames)]


class _Safe(logging.Formatter):
    """Omits the arguments of a library's log messages, and everything of an exception but its type."""

    def message(self, record: logging.LogRecord) -> str:
        """Return the message on one line: a path or a name in it may be an attacker's."""
        if record.name == _OURS:
            return printable(record.getMessage())
        template = str(record.msg).partition("\n")[0]
        kind = record.exc_info[0] if record.exc_info else None
        return printable(f"{record.name}: {template}" + (f" ({kind.__name__})" if kind else ""))


class JsonLines(_Safe):
    """Formats records as JSON lines, for programs."""

    def __init__(self, *, worker: int = 0) -> None:
        super().__init__()
        self._worker = {"worker": worker} if worker else {}

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": self.message(record),
            **self._worker,
            **getattr(record, "fields", {}),
        }
        return _visible(_JSON.encode(line))


def _visible(document: str) -> str:
    """Escape what JSON may contain as it is, but a terminal should not: people read this log, too."""
    if document.isprintable():
        return document
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in document)


class Readable(_Safe):
    """Formats records for people at a terminal: one line each, wrapped to its width."""

    def __init__(self, *, colour: bool, width: Callable[[], int] | None = None, worker: int = 0) -> None:
        super().__init__()
        self._colour, self._width = colour, width
        self._worker = f"[{worker}] " if worker else ""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        start = f"{moment} {record.levelname.lower():<7} {self._worker}"
        line = start + self.message(record)
        if self._width is not None:
            columns = self._width()
            indent = " " * len(start) if columns >= _WIDE else "  "
            line = "\n".join(wrapped(self.message(record), columns, indent, first=start))
        colour = _COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{colour}{line}{_PLAIN}" if colour else line
