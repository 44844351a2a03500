"""The sockets on which workers accept connections: on Linux, each worker has its own at the same address.

If all accepted from one socket, one worker would get most of the connections: of 100 clients that connected
at once to four workers, one worker got 74. With `SO_REUSEPORT`, Linux divides them evenly. The supervisor
keeps every socket open, so that connections wait for the replacement of a worker instead of being refused.
"""

from __future__ import annotations

import socket
import sys

HAS_BALANCING = sys.platform == "linux"
"""Elsewhere `SO_REUSEPORT` does not divide the connections, so the workers share one socket."""


class WorkerSockets:
    """The sockets of all workers at one address, by number. They are bound; workers make them listen, so that
    none gets connections before it is ready."""

    def __init__(self, listening: socket.socket, *, has_balancing: bool = HAS_BALANCING) -> None:
        """Replace a socket, which reserved the address: while it was open, no other gateway could use it."""
        self._shared = None if has_balancing else listening
        self._family, self._address = listening.family, listening.getsockname()
        self._sockets: dict[int, socket.socket] = {}
        if has_balancing:
            listening.close()

    def of(self, number: int) -> socket.socket:
        """Return a worker's socket, and open it if it is not open."""
        if self._shared is not None:
            return self._shared
        if number not in self._sockets:
            self._sockets[number] = self._open()
        return self._sockets[number]

    def _open(self) -> socket.socket:
        opened = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if self._family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(self._address)
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self, number: int) -> None:
        """Leave new connections to the other workers, because this one will not be back soon."""
        if opened := self._sockets.pop(number, None):
            opened.close()

    def close_all(self) -> None:
        for number in list(self._sockets):
            self.close(number)
        if self._shared is not None:
            self._shared.close()
