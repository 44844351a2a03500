"""What the host tells its log, on standard error: codes and names, and nothing that anybody said.

Neither a prompt, nor an answer, nor a key, nor the words of an endpoint, which may repeat them.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from traceback import extract_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import OpenResponsesError

log = logging.getLogger("penstock.host")

_LONGEST_ID = 80


class HostLogFormatter(logging.Formatter):
    """Of other libraries' messages only the fixed words are written, and of an exception only its kind."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": _message(record),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, default=str)


def _message(record: logging.LogRecord) -> str:
    if record.name == log.name:
        return record.getMessage()
    words = str(record.msg).partition("\n")[0]
    kind = record.exc_info[0] if record.exc_info else None
    return f"{record.name}: {words}" + (f" ({kind.__name__})" if kind else "")


def set_up(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HostLogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(level.upper())
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # what it tells has an endpoint's words


def log_request(method: str, id: object) -> None:
    log.debug("%s", method, extra={"fields": {"method": method, "id": _short(id)}})


def log_failure(error: OpenResponsesError, code: str, method: str, id: object) -> None:
    """`code` is our word for it."""
    known = {
        "method": method,
        "id": _short(id),
        "kind": type(error).__name__,
        "code": code,
        "status": error.status,
        "request_id": error.request_id,
        "phase": error.phase,
    }
    fields = {name: value for name, value in known.items() if value is not None}
    log.warning("%s", f"{method} failed: {type(error).__name__} {code}", extra={"fields": fields})


def log_fault(error: BaseException, id: object) -> None:
    """A fault of ours: what kind, and where, without what it was about."""
    frames = extract_tb(error.__traceback__)[-8:]
    where = [f"{frame.filename.rpartition('penstock/')[2]}:{frame.lineno}" for frame in reversed(frames)]
    fields = {"id": _short(id), "kind": type(error).__name__, "where": where}
    log.error("%s", f"a fault of Penstock, {type(error).__name__}", extra={"fields": fields})


def _short(id: object) -> object:
    return id[:_LONGEST_ID] if isinstance(id, str) else id
