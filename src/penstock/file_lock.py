"""Locks an open file. The system releases the lock when the process ends, however it ends."""

from __future__ import annotations

import sys

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def lock_descriptor(descriptor: int) -> None:
        """Lock the file until the descriptor is closed; raise `OSError` if another one has the lock."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock_descriptor(descriptor: int) -> None:
        """Lock the file until the descriptor is closed; raise `OSError` if another one has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
