"""What an error of the database means to the store.

Messages are our own: those of the server may contain stored data, and those of the library an address.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import StoreError
from penstock.extras import EXTRAS

CONNECTION_LOST = ("08", "57P")
"""How the codes of errors begin after which a connection is useless: it broke, or the server stops."""
REFUSED_DATA = ("22", "23", "54")
"""The same for data that the server will never accept."""
_CONFLICTS = ("40001", "40P01", "55P03")
"""Two transactions were in each other's way: a serialization failure, a deadlock, a lock that took too
long. Trying again helps."""

_UNREACHABLE = (StoreError.UNREACHABLE, "the database cannot be reached; check that it is running")
_BUSY = (StoreError.BUSY, "the database is busy; try again")
_DENIED = (
    StoreError.DENIED,
    "the database refuses this user; check the user, the password and what the user may do",
)
_POOLER = (
    StoreError.ADDRESS,
    "a pooler gives each transaction another connection; add ?pooler=transaction to the URL",
)

_FAILURES = (
    ("08", _UNREACHABLE),
    ("57014", (StoreError.BUSY, "the database took too long")),
    ("57P", _UNREACHABLE),
    ("53100", (StoreError.FULL, "the disk of the database is full")),
    ("53", _BUSY),
    ("40", _BUSY),
    ("55P03", _BUSY),
    ("25006", (StoreError.UNREACHABLE, "the database is read-only; use the address of its primary")),
    ("28", _DENIED),
    ("42501", _DENIED),
    ("3D000", (StoreError.MISSING, "there is no such database; create it, or use another one")),
    ("42P05", _POOLER),
    ("26000", _POOLER),
    ("3F000", (StoreError.OLDER_VERSION, "the tables are missing; run penstock store migrate")),
    ("42P01", (StoreError.OLDER_VERSION, "a table is missing; run penstock store migrate")),
    ("42703", (StoreError.OLDER_VERSION, "a column is missing; run penstock store migrate")),
    ("23505", (StoreError.DUPLICATE, "the id already exists")),
    ("22", (StoreError.IO, "the database does not accept the data")),
    ("23", (StoreError.IO, "the database does not accept the data")),
    ("54", (StoreError.IO, "the data is too large for the database")),
)
"""By the beginning of the error's code. The first that matches counts."""
_OTHER = (StoreError.IO, "the database reports an error")


def library() -> Any:
    """Return asyncpg, which is an extra; raise `StoreError` if it is not installed."""
    try:
        import asyncpg  # type: ignore[import-untyped]
    except ImportError:
        extra = EXTRAS["postgres"]
        message = f"{extra.missing}. Install it: {extra.command}"
        raise StoreError(StoreError.NOT_INSTALLED, message) from None
    return asyncpg


def state_of(error: BaseException) -> str:
    """Return the code of an error that the server has sent, or an empty text."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def failure_of(error: BaseException) -> tuple[str, str]:
    """Return our code and message for an error of the database or of the connection to it."""
    state = state_of(error)
    if state:
        return next((found for begin, found in _FAILURES if state.startswith(begin)), _OTHER)
    if isinstance(error, TimeoutError):
        return StoreError.UNREACHABLE, "the database does not answer in time"
    return _UNREACHABLE


def is_database_error(error: Exception) -> bool:
    """Return whether an error comes from the server, or from the connection to it."""
    asyncpg = library()
    own = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, (*own, OSError))  # a `TimeoutError` is one


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is useless after an error: a reply may be half read, or never come."""
    state = state_of(error)
    if state:
        return state.startswith(CONNECTION_LOST) or state == "25006"
    own = isinstance(error, Exception) and not isinstance(error, OSError)
    return not own or isinstance(error, (library().InterfaceError, library().InternalClientError))


def is_conflict(error: BaseException) -> bool:
    return state_of(error) in _CONFLICTS


def is_refusal(error: BaseException) -> bool:
    """Return whether the same data would be refused again."""
    return state_of(error).startswith(REFUSED_DATA) or isinstance(error, (UnicodeError, OverflowError))
