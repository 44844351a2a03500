"""Reading and writing on transports, so that flow control works on every event loop, and over TLS."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Sequence

SMALL = 16 * 1024
"""Bytes that are joined to one write. To join more would cost more than it saves."""
PIECE = 64 * 1024
"""Bytes. What is larger is written in pieces of this size, where that matters."""


def is_readable(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer has sent something, or closed the connection, although the event loop does not
    know it yet."""
    socket = transport.get_extra_info("socket")
    if socket is None or not hasattr(select, "poll"):  # Windows has no `poll`
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def set_reading(transport: asyncio.Transport, should_read: bool) -> None:
    """Pause or resume reading, unless the connection is being closed."""
    if transport.is_closing() or transport.is_reading() is should_read:
        return
    if should_read:
        transport.resume_reading()
    else:
        transport.pause_reading()


def write_all(transport: asyncio.Transport, parts: Sequence[bytes]) -> None:
    """Write these bytes. Large ones are copied only for TLS."""
    size = sum(map(len, parts))
    if size <= SMALL:
        transport.write(b"".join(parts))
    elif size <= PIECE or transport.get_extra_info("ssl_object") is None:
        transport.writelines([part for part in parts if part])  # an empty one confuses Python 3.12.1
    else:
        # TLS passes each write to the transport of the socket, and counts it as sent, however large it is.
        # Only what is written after that transport is full counts as unsent.
        whole = memoryview(b"".join(parts))
        for start in range(0, size, PIECE):
            transport.write(whole[start : start + PIECE])
