"""`[[keys]]` in `penstock.toml`: the keys of clients."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.gateway.settings import ClientKey
from penstock.store.ledger import Budget, KeyLimits
from tests.gateway.config.reading import HASH, errors, read, read_or_errors


def test_a_client_key_shows_no_digest() -> None:
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH.upper().replace("SHA", "sha")}"').keys
    assert key == ClientKey(name="a", digest=b"\xab" * 32)


def test_an_operator_is_marked_as_one() -> None:
    entry = f'[[keys]]\nname = "a"\nhash = "{HASH}"\noperator = '
    assert [read(entry + value).keys[0].admin for value in ("true", "false")] == [True, False]
    _, found = read_or_errors(entry + '"yes"')
    assert "true or false" in found[0].message


def test_a_key_cannot_have_the_name_of_the_tenant_without_keys() -> None:
    """The tenant of requests without a key is `local`: a key of that name would read its responses."""
    (error,) = errors(f'[[keys]]\nname = "local"\nhash = "{HASH}"')
    assert error.startswith("2: keys[0].name:")
    assert "local" in error


def test_limits_of_a_key_are_read() -> None:
    lines = """expires = 2027-01-31
models = ["demo", "gpt-*"]
requests_per_minute = 1
tokens_per_minute = 2
concurrent_turns = 3
budget = ["1_000_000 tokens/day", "2.5 usd / month"]
"""
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH}"\n{lines}').keys
    assert key.limits == KeyLimits(
        requests_per_minute=1,
        tokens_per_minute=2,
        concurrent_turns=3,
        budgets=(Budget(1_000_000, "tokens", "day"), Budget(2.5, "cost", "month")),
    )
    assert key.expires_at == datetime(2027, 2, 1, tzinfo=UTC).timestamp(), "the day itself is included"
    assert [key.may_use(name) for name in ("demo", "demo2", "gpt-5", "gpt")] == [True, False, True, False]


@pytest.mark.parametrize(
    "written", ["2027-01-31T10:00:00Z", "2027-01-31T10:00:00", "2027-01-31T12:00:00+02:00"]
)
def test_a_time_without_an_offset_is_in_utc(written: str) -> None:
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH}"\nexpires = {written}').keys
    assert key.expires_at == datetime(2027, 1, 31, 10, tzinfo=UTC).timestamp()
