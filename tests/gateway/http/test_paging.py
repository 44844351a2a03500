"""Lists that are returned page by page."""

from __future__ import annotations

import json

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.paging import list_body, number, page_options
from penstock.store.records import StoredItem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("007", 7),
        ("9" * 18, 999_999_999_999_999_999),
        # No store takes more than 64 bits, and Python would read digits of any script.
        ("9" * 19, -1),
        ("٧", -1),
        ("-1", -1),
        ("1.5", -1),
        ("", -1),
    ],
)
def test_a_number_in_a_query_is_plain_digits(text: str, expected: int) -> None:
    assert number(text, -1) == expected


def test_without_a_query_a_page_has_the_newest_twenty() -> None:
    assert page_options({}) == {"after": None, "limit": 20, "newest_first": True}
    asked = page_options({"limit": "100", "order": "asc", "after": "msg_1"})
    assert asked == {"after": "msg_1", "limit": 100, "newest_first": False}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"order": "newest"}, "order"),
    ],
)
def test_a_page_that_cannot_be_made_is_refused_by_the_name_of_its_option(
    query: dict[str, str], param: str
) -> None:
    with pytest.raises(RequestRefused) as caught:
        page_options(query)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_the_items_of_a_page_are_written_as_they_are_stored() -> None:
    items = [StoredItem("a", b'{"id": "a",  "odd":1e3}'), StoredItem("b", b'{"id":"b"}')]
    body = list_body(items, has_more=True)
    assert b'{"id": "a",  "odd":1e3}' in body
    page = json.loads(body)
    assert [page[name] for name in ("object", "first_id", "last_id", "has_more")] == ["list", "a", "b", True]
    assert json.loads(list_body([], has_more=False))["first_id"] is None
