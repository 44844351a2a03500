"""The URLs of databases."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from penstock.store.postgres.address import POOL_SIZE, address_of, location_of

URL = "postgresql://user:hunter2@db.example:5432/penstock?sslmode=require"


def test_options_of_our_own_are_not_passed_on() -> None:
    address = address_of(URL + "&pool_size=4&pooler=transaction&lease=2.5")
    assert address.url == URL
    assert address.lease == 2.5
    assert (address.pool_size, address.pooler, address.can_listen) == (4, "transaction", False)


def test_without_options_a_connection_is_direct() -> None:
    address = address_of(URL)
    assert (address.url, address.direct_url, address.pool_size) == (URL, URL, POOL_SIZE)
    assert address.can_listen


def test_a_direct_url_leads_past_a_pooler() -> None:
    address = address_of(URL + "&pooler=transaction", "postgres://user:hunter2@primary/penstock")
    assert address.direct_url == "postgres://user:hunter2@primary/penstock"
    assert address.can_listen


@pytest.mark.parametrize(
    ("url", "location"),
    [
        (URL, "postgresql://db.example:5432/penstock"),
        ("postgres://u:p@ss@host/db", "postgresql://host/db"),
        ("postgresql://one:1,two:2/db", "postgresql://one:1,two:2/db"),
        ("postgresql:///db?host=/run/postgresql&password=hunter2", "postgresql:///run/postgresql/db"),
        ("postgresql:///db", "postgresql://localhost/db"),
        ("postgresql://[hunter2", "postgresql://"),
    ],
)
def test_a_location_has_no_secrets(url: str, location: str) -> None:
    assert location_of(url) == location


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (URL + "&pool_size=many", "pool_size"),
        (URL + "&pool_size=1", "pool_size"),
        (URL + "&pooler=session", "pooler"),
        (URL + "&lease=soon", "lease"),
        (URL + "&lease=0.5", "lease"),
        ("mysql://user:hunter2@host/db", "postgresql://"),
        ("postgresql://user:hunter2@[::1/db", "IPv6"),
    ],
)
def test_an_invalid_url_is_an_error_without_secrets(url: str, problem: str) -> None:
    with pytest.raises(StoreError) as caught:
        address_of(url)
    assert caught.value.code == StoreError.ADDRESS
    assert problem in caught.value.message
    assert "hunter2" not in caught.value.message


def test_an_address_is_shown_without_secrets() -> None:
    assert "hunter2" not in repr(address_of(URL, URL))
    assert "hunter2" not in str([address_of(URL)])
