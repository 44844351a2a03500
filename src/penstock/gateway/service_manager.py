"""Tell the service manager what the gateway does, with the protocol of systemd's `Type=notify` units.

Only the main process tells it: systemd ignores what workers say.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping

VARIABLE = "NOTIFY_SOCKET"
"""Set by systemd: where to send messages."""


def tell_ready(url: str, environment: Mapping[str, str] = os.environ) -> None:
    _send(environment, "READY=1", f"STATUS=ready at {url}")


def tell_reloading(environment: Mapping[str, str] = os.environ) -> None:
    """The settings are read again. The time is for `Type=notify-reload`."""
    _send(environment, "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def tell_reloaded(environment: Mapping[str, str] = os.environ) -> None:
    _send(environment, "READY=1")


def tell_stopping(environment: Mapping[str, str] = os.environ) -> None:
    _send(environment, "STOPPING=1", "STATUS=waiting for running turns")


def _send(environment: Mapping[str, str], *lines: str) -> None:
    where = environment.get(VARIABLE, "")
    if not where.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return
    if where.startswith("@"):  # an abstract socket of Linux
        where = f"\0{where[1:]}"
    # A service manager that does not listen must not stop the gateway, nor make it wait.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.suppress(OSError):
        manager.setblocking(False)
        manager.sendto("\n".join(lines).encode(), where)
