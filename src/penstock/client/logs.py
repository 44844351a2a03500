"""What is told to the log `penstock.client`. One line each, whatever a server wrote."""

from __future__ import annotations

import logging

from penstock.errors import OpenResponsesError

log = logging.getLogger("penstock.client")


def log_failure(error: OpenResponsesError) -> None:
    """Tell of a failure that goes to the caller."""
    status = f" {error.status}" if error.status else ""
    log.error("%s%s %s: %s", type(error).__name__, status, error.code, one_line(str(error)))


def one_line(text: str) -> str:
    return " ".join(text.split())
