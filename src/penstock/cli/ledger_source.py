"""Where a command reads the ledger: in the store's file, or from a running gateway."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.cli import UsageError
from penstock.cli.endpoint import DEFAULT_URL
from penstock.cli.store import add_store_option, store_place

if TYPE_CHECKING:
    from penstock.store.ledger import Dimension, TurnFilter, TurnPage, TurnRecord, TurnTotals

T = TypeVar("T")

_TIMEOUT = 30.0
_FOUND = 200
_MOST_BYTES = 64 * 1024 * 1024
_PAGE = 500
"""Turns per request: the most that a gateway returns."""


class LedgerSource(Protocol):
    """See `penstock.store.ledger.Ledger` for what each method promises."""

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage: ...

    def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]: ...


def add_ledger_options(parser: argparse.ArgumentParser) -> None:
    add_store_option(parser)
    add = parser.add_argument
    add("--base-url", metavar="URL", help=f"ask a running gateway, e.g. {DEFAULT_URL}")
    add("--api-key-env", metavar="NAME", help="the environment variable with your key")


@contextmanager
def open_ledger(options: argparse.Namespace) -> Iterator[LedgerSource]:
    """Open the ledger that the options select. Errors of the store are raised as `UsageError`."""
    from penstock.cli.endpoint import read_key
    from penstock.errors import StoreError
    from penstock.store import open_archive

    if options.store and options.base_url:
        raise UsageError("use --store for a file, or --base-url for a running gateway, not both")
    if options.api_key_env and not options.base_url:
        raise UsageError("--api-key-env needs --base-url: a file is read without a key")
    if options.base_url:
        yield _GatewayLedger(options.base_url, read_key(options.api_key_env))
        return
    try:
        with open_archive(store_place(options)) as archive:
            yield archive
    except StoreError as error:
        raise UsageError(str(error)) from None


def newest_turns(
    source: LedgerSource, filter: TurnFilter, limit: int, outcomes: Sequence[str] = ("",)
) -> list[TurnRecord]:
    """Return the newest turns with one of the outcomes, in the order in which they started."""
    from msgspec.structs import replace

    found = [
        record
        for outcome in outcomes
        for record in islice(each_turn(source, replace(filter, outcome=outcome), limit), limit)
    ]
    found.sort(key=lambda record: (record.started_at, record.id))
    return found[-limit:] if limit else []


def each_turn(source: LedgerSource, filter: TurnFilter, page: int = _PAGE) -> Iterator[TurnRecord]:
    """Yield turns, newest first. A page is read when it is needed."""
    after = ""
    while True:
        found = source.turns(filter, after=after, limit=max(min(page, _PAGE), 1))
        yield from found.turns
        after = found.next
        if not after:
            return


class _GatewayLedger:
    """The ledger of a running gateway."""

    def __init__(self, base_url: str, key: str) -> None:
        from penstock.cli.fetch import endpoint

        self._root = endpoint(base_url).partition("?")[0].removesuffix("responses")
        self._key = key

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        from penstock.store.ledger import TurnPage, TurnRecord

        query = {**_query(filter), "limit": limit, "after": after}
        found, next = self._asked("turns", query, tuple[TurnRecord, ...])
        return TurnPage(found, next)

    def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        from penstock.store.ledger import TurnTotals

        return self._asked("usage", {"by": ",".join(by), **_query(filter)}, list[TurnTotals])[0]

    def _asked(self, what: str, query: Mapping[str, object], type: type[T]) -> tuple[T, str]:
        """Return the data of an answer, and the cursor of its next page; raise `UsageError`."""
        from urllib.parse import urlencode

        import msgspec

        from penstock.cli.fetch import display_url, get

        url = self._root + what
        given = urlencode({name: each for name, each in query.items() if each})
        answer = get(f"{url}?{given}", key=self._key, timeout=_TIMEOUT)
        try:
            if answer.status != _FOUND:
                raise UsageError(f"{display_url(url)}: {answer.failure(self._key)}")
            body = msgspec.json.decode(answer.body.read(_MOST_BYTES), type=dict[str, msgspec.Raw])
            next: Any = msgspec.json.decode(body.get("next", b"null"), type=str | None)
            return msgspec.json.decode(body.get("data", b""), type=type), next or ""
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise UsageError(f"{display_url(url)} is not the {what} of a Penstock gateway") from None
        finally:
            answer.body.close()


def _query(filter: TurnFilter) -> dict[str, object]:
    return {
        "since": filter.since,
        "until": filter.until,
        "key": filter.tenant,
        "model": filter.model,
        "outcome": filter.outcome,
        "search": filter.search,
    }
