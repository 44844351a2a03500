"""The host's log on standard error: codes and names, but no content.

It contains no prompt, answer or key, and no message of an endpoint, which may quote them.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Collection, Sequence
from traceback import extract_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import OpenResponsesError
    from penstock.parts.parts import Part
    from penstock.parts.tracing import Trace
    from penstock.protocol.events import Event

log = logging.getLogger("penstock.host")

TRACE = 5
"""Below debug: the events of every turn, and the parts that they produced."""

_READABLE = (log.name, "penstock.models")
"""The loggers whose arguments contain no content. That of the models logs the path of a file and a reason."""
_MAX_ID_LENGTH = 80


class HostLogFormatter(logging.Formatter):
    """Formats records as JSON; for other loggers without the arguments and the text of exceptions."""

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
    if record.name in _READABLE:
        return record.getMessage()
    words = str(record.msg).partition("\n")[0]
    kind = record.exc_info[0] if record.exc_info else None
    return f"{record.name}: {words}" + (f" ({kind.__name__})" if kind else "")


def set_up(level: str) -> None:
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HostLogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(level.upper())
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # it logs messages of the endpoint


def trace_of(id: object, tools: Collection[str] = ()) -> Trace | None:
    """Return what traces the events of a request; None if the level is off, so that nothing is computed.

    `tools` are the names of the tools in the request.
    """
    if not log.isEnabledFor(TRACE):
        return None
    from penstock.parts.tracing import trace_fields  # `stdio` imports this module before it can answer

    def trace(event: Event | None, parts: Sequence[Part]) -> None:
        fields = trace_fields(event, parts, tools)
        log.log(TRACE, "%s", fields.pop("type"), extra={"fields": {"id": _short(id), **fields}})

    return trace


def log_request(method: str, id: object) -> None:
    log.debug("%s", method, extra={"fields": {"method": method, "id": _short(id)}})


def log_failure(error: OpenResponsesError, code: str, method: str, id: object) -> None:
    """Log a failed request. `code` is our own code, not the endpoint's."""
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


def log_internal_error(error: BaseException, id: object) -> None:
    """Log an internal error: its type and location, without its message."""
    frames = extract_tb(error.__traceback__)[-8:]
    where = [f"{frame.filename.rpartition('penstock/')[2]}:{frame.lineno}" for frame in reversed(frames)]
    fields = {"id": _short(id), "kind": type(error).__name__, "where": where}
    log.error("%s", f"internal error: {type(error).__name__}", extra={"fields": fields})


def _short(id: object) -> object:
    return id[:_MAX_ID_LENGTH] if isinstance(id, str) else id
