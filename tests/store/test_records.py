"""Pages of the records of a store."""

from __future__ import annotations

import pytest

from penstock.store.records import page_of


@pytest.mark.parametrize(
    ("after", "limit", "newest_first", "expected"),
    [
        (None, 2, False, ("ab", True)),
        (None, 9, False, ("abac", False)),
        (None, 4, False, ("abac", False)),
        ("b", 1, False, ("a", True)),
        ("a", 9, False, ("c", False)),  # the last occurrence, or paging would never end
        ("a", 9, True, ("", False)),
        ("c", 9, True, ("aba", False)),
        ("no", 9, False, ("", False)),
        (None, 0, False, ("", True)),
        (None, -1, False, ("", True)),
    ],
)
def test_a_page_starts_after_the_last_occurrence_of_an_id(
    after: str | None, limit: int, newest_first: bool, expected: tuple[str, bool]
) -> None:
    page, has_more = page_of("abac", str, after=after, limit=limit, newest_first=newest_first)
    assert ("".join(page), has_more) == expected
