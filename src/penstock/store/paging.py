"""Pages of a list of items, as the protocol's lists are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def page_of(
    entries: Sequence[T], id_of: Callable[[T], str], *, after: str | None, limit: int, newest_first: bool
) -> tuple[list[T], bool]:
    """Up to `limit` entries behind the one called `after`, and whether there are more.

    A history may hold one id twice. The last of them in the order of reading counts, so that somebody who
    turns page after page always comes to an end.
    """
    ordered = list(reversed(entries)) if newest_first else list(entries)
    begin = 0
    if after is not None:
        places = [place for place, entry in enumerate(ordered) if id_of(entry) == after]
        begin = places[-1] + 1 if places else len(ordered)
    end = begin + max(limit, 0)
    return ordered[begin:end], end < len(ordered)
