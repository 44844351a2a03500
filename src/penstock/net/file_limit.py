"""How many files a process may have open: each connection is one, and a turn has two."""

from __future__ import annotations

import sys
from contextlib import suppress

MOST_FILES = 65_536
"""More than a process can serve; some systems would allow a billion."""
_UNKNOWN = 1024


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows, up to `MOST_FILES`, and return their number.
    Many systems start processes with 1024, whatever they allow."""
    if sys.platform == "win32":
        return _UNKNOWN
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return file_limit()


def file_limit() -> int:
    """Return how many files this process may have open, at most `MOST_FILES`."""
    if sys.platform == "win32":
        return _UNKNOWN
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, MOST_FILES)
