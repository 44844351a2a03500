"""`[[keys]]` in `penstock.toml`: the keys of clients."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.keys import names_of, with_key, without_key
from penstock.gateway.settings import ClientKey
from tests.gateway.config.reading import HASH, errors, read, read_or_errors


def test_a_client_key_shows_no_digest() -> None:
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH.upper().replace("SHA", "sha")}"').keys
    assert key == ClientKey(name="a", digest=b"\xab" * 32)


def test_an_operator_is_marked_as_one() -> None:
    entry = f'[[keys]]\nname = "a"\nhash = "{HASH}"\noperator = '
    assert [read(entry + value).keys[0].operator for value in ("true", "false")] == [True, False]
    _, found = read_or_errors(entry + '"yes"')
    assert "true or false" in found[0].message


def test_a_key_cannot_have_the_name_of_the_tenant_without_keys() -> None:
    """The tenant of requests without a key is `local`: a key of that name would read its responses."""
    (error,) = errors(f'[[keys]]\nname = "local"\nhash = "{HASH}"')
    assert error.startswith("2: keys[0].name:")
    assert "local" in error


# Editing the file: everything else in it belongs to the person who wrote it

ENTRY = f'[[keys]]\nname = "new"\nhash = "{HASH}"\n'
OTHER = f'[[keys]]\nname = "old"\nhash = "sha256:{"cd" * 32}"\n'


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"# a comment",
        b"[server]\nport = 1\n",
        OTHER.encode(),
        b"[server]\r\nport = 1\r\n",
        b"\xef\xbb\xbf",
    ],
    ids=["empty", "no line end", "a table", "another key", "CRLF", "BOM"],
)
def test_a_key_is_added_at_the_end_and_removed_again(before: bytes) -> None:
    after = with_key(before, "new", ENTRY, "penstock.toml")
    assert after.startswith(before)
    assert names_of(after, "penstock.toml")[-1] == "new"
    assert (b"\r\n" in after) is (b"\r\n" in before)
    assert without_key(after, "new", "penstock.toml").rstrip() == before.rstrip()


def test_only_the_named_key_is_removed() -> None:
    data = f"# mine\n{OTHER}\n{ENTRY}\n[server]\nport = 1\n".encode()
    after = without_key(data, "new", "penstock.toml")
    assert after == f"# mine\n{OTHER}\n[server]\nport = 1\n".encode()


def test_a_name_that_exists_is_not_added_twice() -> None:
    data = f"port_comment = 1\n{ENTRY}".encode()
    with pytest.raises(ConfigError, match='"new"') as caught:
        with_key(data, "new", ENTRY, "penstock.toml")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "data",
    [b"keys = []\n", b'keys = [{name = "old", hash = "x"}]\n', b'keys = "x"\n', b"\xff", b"[broken"],
    ids=["an inline list", "inline tables", "a text", "not UTF-8", "not TOML"],
)
def test_a_file_that_cannot_be_edited_safely_is_an_error(data: bytes) -> None:
    with pytest.raises(ConfigError):
        with_key(data, "new", ENTRY, "penstock.toml")


def test_a_key_that_cannot_be_removed_safely_is_named_with_its_lines() -> None:
    data = f'keys = [{{name = "old", hash = "{HASH}"}}, {{name = "b", hash = "{HASH}"}}]\n'.encode()
    with pytest.raises(ConfigError, match="line 1"):
        without_key(data, "old", "penstock.toml")
