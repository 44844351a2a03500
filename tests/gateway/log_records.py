"""What a gateway in this process logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LogRecords(logging.Handler):
    """Collects the records of one kind of event, and their fields."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self._event = event
        self.records: list[logging.LogRecord] = []
        self.fields: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        if fields.get("event") == self._event:
            self.records.append(record)
            self.fields.append(fields)


@contextmanager
def log_records(event: str) -> Iterator[LogRecords]:
    found = LogRecords(event)
    log = logging.getLogger("penstock.gateway")
    level = log.level
    log.addHandler(found)
    log.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        log.removeHandler(found)
        log.setLevel(level)
