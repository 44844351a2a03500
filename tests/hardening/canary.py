"""A server that nobody may connect to, and the ways to write its address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HOSTS = ("127.0.0.1", "127.0.0.2", "::1")
_FORMS = (
    "http://127.0.0.1:{port}/{mark}.png",
    "HTTP://LOCALHOST:{port}/{mark}.pdf",
    "http://[::1]:{port}/{mark}.png",
    "http://[::ffff:127.0.0.1]:{port}/{mark}.png",
    "http://[0:0:0:0:0:ffff:7f00:1]:{port}/{mark}.txt",
    "http://2130706433:{port}/{mark}.png",
    "http://0x7f000001:{port}/{mark}.png",
    "http://0177.0.0.1:{port}/{mark}.png",
    "http://127.1:{port}/{mark}.mp4",
    "http://127.0.0.2:{port}/{mark}.png",
    "http://0.0.0.0:{port}/{mark}.png",
    "http://user:password@127.0.0.1:{port}/{mark}.png",
    "http://example.com@127.0.0.1:{port}/{mark}.png",
    "https://127.0.0.1:{port}/{mark}.png",
    "ws://127.0.0.1:{port}/{mark}",
    "ftp://127.0.0.1:{port}/{mark}.txt",
    "gopher://127.0.0.1:{port}/_{mark}",
    "//127.0.0.1:{port}/{mark}.png",
)
MARK = "canary-mark"
"""In the path of every URL."""


class Canary:
    """Listens on all loopback addresses, and counts the connections."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.connections = 0
        self.port = 0

    def urls(self) -> list[str]:
        return [form.format(port=self.port, mark=MARK) for form in _FORMS]

    @property
    def hosts(self) -> list[str]:
        """The distinct hosts of the URLs, as a resolver reads them."""
        heads = [url.partition("//")[2].partition("/")[0].rpartition("@")[2] for url in self.urls()]
        return list(dict.fromkeys(head.rpartition(":")[0].strip("[]").lower() for head in heads))

    def open(self) -> None:
        while True:
            try:
                self._sockets = []
                for host in _HOSTS:
                    family = socket.AF_INET6 if ":" in host else socket.AF_INET
                    opened = socket.socket(family, socket.SOCK_STREAM)
                    self._sockets.append(opened)
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    opened.bind((host, self.port))
                    opened.listen(64)
                    self.port = opened.getsockname()[1]
            except OSError:  # another program has this port at one of the addresses
                self.close()
                self.port = 0
            else:
                break
        for each in self._sockets:
            threading.Thread(target=self._count, args=(each,), daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # ends `accept` in the other thread
            each.close()

    def _count(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                self.connections += 1
                accepted.close()


@contextmanager
def canary() -> Iterator[Canary]:
    opened = Canary()
    opened.open()
    try:
        yield opened
    finally:
        opened.close()
