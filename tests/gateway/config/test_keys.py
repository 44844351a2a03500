"""`[[keys]]` in `penstock.toml`: the keys of clients."""

from __future__ import annotations

from penstock.gateway.settings import ClientKey
from tests.gateway.config.reading import HASH, errors, read, read_or_errors


def test_a_client_key_shows_no_digest() -> None:
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH.upper().replace("SHA", "sha")}"').keys
    assert key == ClientKey(name="a", digest=b"\xab" * 32)


def test_an_operator_is_marked_as_one() -> None:
    entry = f'[[keys]]\nname = "a"\nhash = "{HASH}"\noperator = '
    assert [read(entry + said).keys[0].operator for said in ("true", "false")] == [True, False]
    _, found = read_or_errors(entry + '"yes"')
    assert "true or false" in found[0].message


def test_a_key_cannot_have_the_name_of_the_tenant_without_keys() -> None:
    """The tenant of requests without a key is `local`: a key of that name would read its responses."""
    (error,) = errors(f'[[keys]]\nname = "local"\nhash = "{HASH}"')
    assert error.startswith("2: keys[0].name:")
    assert "local" in error
