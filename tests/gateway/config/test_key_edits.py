"""Editing `[[keys]]` in `penstock.toml`."""

from __future__ import annotations

import tomllib

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.key_edits import names_of, with_key, with_new_hash, without_key
from tests.gateway.config.reading import HASH

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


NEW = f"sha256:{'ef' * 32}"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_rotation_changes_only_the_hash(end: str) -> None:
    entry = f'# Ann\n[[keys]]\nname = "new" # hers\nhash = "{HASH}" # of May\n# more\nmodels = ["a"]\n'
    data = f"{OTHER}\n{entry}\n[server]\nport = 1\n".replace("\n", end).encode()
    assert with_new_hash(data, "new", NEW, "", "") == data.replace(HASH.encode(), NEW.encode())


def test_a_rotation_with_grace_keeps_the_old_hash_until_the_next() -> None:
    once = with_new_hash(f"{ENTRY}\n{OTHER}".encode(), "new", NEW, "2027-01-31T12:00:00Z", "")
    entry = tomllib.loads(once.decode())["keys"][0]
    assert (entry["hash"], entry["previous_hash"]) == (NEW, HASH)
    assert with_new_hash(once, "new", HASH, "", "") == f"{ENTRY}\n{OTHER}".encode()


def test_a_key_in_another_layout_is_not_rotated() -> None:
    data = f'keys = [{{name = "old", hash = "{HASH}"}}]\n'.encode()
    with pytest.raises(ConfigError, match="cannot be changed safely"):
        with_new_hash(data, "old", NEW, "", "penstock.toml")
