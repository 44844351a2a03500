"""Where the library's log goes while a command runs: without this, Python prints warnings in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Retries(logging.Handler):
    """Tells of another attempt and of how long it is waited for, which the client says in its log alone."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:  # a failure is raised as well
            self._tell(record.getMessage())


@contextmanager
def logged_to(handler: logging.Handler | None = None) -> Iterator[None]:
    """To `handler` and to nobody else; to nobody at all without one."""
    handler = handler or logging.NullHandler()
    log = logging.getLogger("penstock")
    kept, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = kept
