"""The address of a database: a URL as every tool of PostgreSQL reads it, with three options of our own."""

from __future__ import annotations

from typing import Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from penstock.errors import StoreError

POOL_SIZE = 8
"""Connections that one worker uses at most, without the one that it listens on."""
_LARGEST_POOL = 500
LEASE = 10.0
"""Seconds after which a worker that does not renew its lease is considered dead."""
_SHORTEST_LEASE, _LONGEST_LEASE = 1.0, 60.0

Pooler = Literal["none", "transaction"]


class DatabaseAddress(Struct, frozen=True, kw_only=True):
    """Where a database is, and how to use it. The URLs contain a password; `location` is for messages."""

    url: str
    location: str
    direct_url: str
    """For what a pooler of transactions does not pass on: LISTEN, and migrations."""
    pool_size: int = POOL_SIZE
    pooler: Pooler = "none"
    """`transaction` if a pooler gives each transaction another connection."""
    can_listen: bool = True
    """Whether `direct_url` leads past any pooler."""

    lease: float = LEASE

    def __repr__(self) -> str:
        return f"DatabaseAddress({self.location!r})"


def address_of(url: str, direct_url: str = "") -> DatabaseAddress:
    """Read the URL of a database; raise `StoreError` if it cannot be read."""
    plain, options = _without_own_options(url)
    size = options.get("pool_size", str(POOL_SIZE))
    if not size.isascii() or not size.isdigit() or not 2 <= int(size) <= _LARGEST_POOL:
        raise _invalid(url, f"pool_size must be a number from 2 to {_LARGEST_POOL}")
    pooler: Pooler
    match options.get("pooler", "none"):
        case "none":
            pooler = "none"
        case "transaction":
            pooler = "transaction"
        case _:
            raise _invalid(url, "pooler must be none or transaction")
    return DatabaseAddress(
        url=plain,
        location=location_of(url),
        direct_url=_without_own_options(direct_url)[0] if direct_url else plain,
        pool_size=int(size),
        pooler=pooler,
        can_listen=pooler == "none" or bool(direct_url),
        lease=_lease(url, options.get("lease", str(LEASE))),
    )


def _lease(url: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_LEASE <= seconds <= _LONGEST_LEASE:
        raise _invalid(url, f"lease must be a number from {_SHORTEST_LEASE:g} to {_LONGEST_LEASE:g} seconds")
    return seconds


def location_of(url: str) -> str:
    """Return the host and the database of a URL, without user, password and options."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
    except ValueError:
        return "postgresql://"
    hosts = parts.netloc.rpartition("@")[2] or options.get("host") or "localhost"
    return f"postgresql://{unquote(hosts)}{parts.path}"


_OWN_OPTIONS = ("pool_size", "pooler", "lease")


def _without_own_options(url: str) -> tuple[str, dict[str, str]]:
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as error:
        raise _invalid(url, str(error)) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise _invalid(url, "it must begin with postgresql://")
    own = {name: value for name, value in options if name in _OWN_OPTIONS}
    query = urlencode([(name, value) for name, value in options if name not in _OWN_OPTIONS])
    return urlunsplit(parts._replace(query=query)), own


def _invalid(url: str, problem: str) -> StoreError:
    return StoreError(
        StoreError.ADDRESS,
        f"{location_of(url)}: {problem}; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
    )
