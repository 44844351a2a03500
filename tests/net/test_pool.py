"""Connections that are kept for the next request."""

from __future__ import annotations

from socket import socketpair
from typing import Any

from penstock.net.pool import is_ended


def test_an_idle_connection_that_the_server_has_closed_is_recognised() -> None:
    class Idle:
        def __init__(self, socket: Any) -> None:
            self._socket = socket

        def get_extra_info(self, name: str) -> Any:
            return self._socket if name == "socket" else None

    ours, theirs = socketpair()
    with ours, theirs:
        assert not is_ended(Idle(ours))  # type: ignore[arg-type]
        theirs.close()
        assert is_ended(Idle(ours))  # type: ignore[arg-type]
        assert not is_ended(None)
        assert not is_ended(Idle(None))  # type: ignore[arg-type]
