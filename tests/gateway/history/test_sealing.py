"""Sealed data can be read only by the gateway that sealed it, for the tenant that it was sealed for."""

from __future__ import annotations

import os
import stat
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.errors import ConfigError
from penstock.gateway.history.sealing import FILE, MARK, OLD_SECRETS, SECRET, Sealer, load_sealer, secret_in

DATA = b"the summary of a conversation"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

posix_only = pytest.mark.skipif(os.name != "posix", reason="file modes need POSIX")


def test_sealed_data_can_be_opened() -> None:
    sealer = Sealer("a secret")
    for data in (DATA, b"", bytes(range(256)) * 1000):
        sealed = sealer.seal("local", data)
        assert sealed.startswith(MARK)
        assert Sealer("a secret").open("local", sealed) == data


def test_a_key_is_derived_as_rfc_5869_says() -> None:
    hkdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"penstock sealing 1")
    key = hkdf.derive(b"a secret")
    id, nonce = sha256(b"penstock key id" + key).digest()[:4], bytes(12)
    sealed = id + nonce + AESGCM(key).encrypt(nonce, b"a summary", b"pkc1.me")
    text = MARK + urlsafe_b64encode(sealed).decode().rstrip("=")
    assert Sealer("a secret").open("me", text) == b"a summary"


def test_the_cache_key_of_a_conversation_depends_on_the_secret() -> None:
    """It is sent to upstreams: nobody without the secret can try texts and names of tenants."""
    key = Sealer("a secret").cache_key(b"root")
    assert len(key) == 32
    assert Sealer("a secret", ["old"]).cache_key(b"root") == key
    others = [Sealer("another").cache_key(b"root"), Sealer("a secret").cache_key(b"other")]
    assert len({key, *others}) == 3
    assert sha256(b"root").hexdigest()[:32] not in (key, *others)


def test_the_same_data_is_never_sealed_the_same_way() -> None:
    sealer = Sealer("a secret")
    assert len({sealer.seal("local", DATA) for _ in range(100)}) == 100


def test_no_character_can_be_changed() -> None:
    """Not even the bits of the last character that base64 does not use."""
    sealer = Sealer("a secret")
    for data in (DATA, DATA + b"1", DATA + b"12"):
        sealed = sealer.seal("local", data)
        for place, letter in enumerate(sealed):
            for other in ALPHABET if place >= len(sealed) - 2 else "A-b!\n ":
                if other != letter:
                    assert sealer.open("local", sealed[:place] + other + sealed[place + 1 :]) is None


def test_nothing_can_be_added_or_left_out() -> None:
    sealer = Sealer("a secret")
    sealed = sealer.seal("local", DATA)
    for place in range(len(sealed)):
        assert sealer.open("local", sealed[:place]) is None
    for more in ("A", "=", "==", "\n", "AAAA", "é", "\ud800"):
        assert sealer.open("local", sealed + more) is None


@pytest.mark.parametrize("text", ["", "pkc1.", "pk1.e30", "gAAAAABo", "pkc2.AAAA", "pkc1.é", MARK + "A" * 99])
def test_foreign_data_is_not_opened(text: str) -> None:
    assert Sealer("a secret").open("local", text) is None


def test_another_tenant_cannot_open_it() -> None:
    sealer = Sealer("a secret")
    sealed = sealer.seal("alice", DATA)
    assert [sealer.open(tenant, sealed) for tenant in ("bob", "", "local", "alice ")] == [None] * 4
    assert sealer.open("alice", sealed) == DATA


def test_old_secrets_open_but_do_not_seal() -> None:
    old, new = Sealer("old"), Sealer("new", ["older", "old"])
    assert new.open("local", old.seal("local", DATA)) == DATA
    assert old.open("local", new.seal("local", DATA)) is None
    assert Sealer("new").open("local", old.seal("local", DATA)) is None


def test_the_environment_has_the_secret_and_the_old_ones(tmp_path: Path) -> None:
    sealed = Sealer("one, or two").seal("local", DATA)
    assert load_sealer({SECRET: "one, or two"}, tmp_path).open("local", sealed) == DATA
    first, second = (Sealer(each).seal("local", DATA) for each in ("first", "second"))
    later = load_sealer({SECRET: "third", OLD_SECRETS: " first ,second,,"}, tmp_path)
    assert later.open("local", first) == later.open("local", second) == DATA
    assert not (tmp_path / FILE).exists()


@posix_only
def test_without_a_variable_the_secret_is_in_a_file_next_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is private from the moment it is created."""
    folder = tmp_path / "data" / "penstock"
    monkeypatch.delattr(Path, "chmod")
    before = os.umask(0)
    try:
        sealed = load_sealer({}, folder).seal("local", DATA)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert [each.name for each in folder.iterdir()] == [FILE]
    assert load_sealer({SECRET: " "}, folder).open("local", sealed) == DATA


@posix_only
def test_a_secret_file_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("a secret\n")
    (tmp_path / FILE).chmod(0o644)
    assert load_sealer({}, tmp_path).open("local", Sealer("a secret").seal("local", DATA)) == DATA
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_what_the_file_sealed_is_read_when_the_environment_has_a_secret(tmp_path: Path) -> None:
    sealed = load_sealer({}, tmp_path).seal("local", DATA)
    assert load_sealer({SECRET: "new"}, tmp_path).open("local", sealed) == DATA


def test_the_first_stored_secret_seals_and_all_of_them_open(tmp_path: Path) -> None:
    first, second = (Sealer(each).seal("local", DATA) for each in ("first", "second"))
    stored = load_sealer({}, None, ["first", "second"])
    assert stored.open("local", second) == DATA
    assert Sealer("first").open("local", stored.seal("local", DATA)) == DATA
    given = load_sealer({SECRET: "given"}, None, ["first", "second"])
    assert given.open("local", first) == given.open("local", second) == DATA
    assert Sealer("given").open("local", given.seal("local", DATA)) == DATA
    assert not (tmp_path / FILE).exists()


def test_the_secret_in_a_folder_is_read_for_another_store(tmp_path: Path) -> None:
    assert secret_in(tmp_path) == ""
    sealed = load_sealer({}, tmp_path).seal("local", DATA)
    assert load_sealer({}, None, [secret_in(tmp_path)]).open("local", sealed) == DATA
    (tmp_path / FILE).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="not a text file"):
        secret_in(tmp_path)


def test_gateways_that_start_together_share_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        sealers = list(pool.map(lambda _: load_sealer({}, tmp_path), range(32)))
    sealed = sealers[0].seal("local", DATA)
    assert {sealer.open("local", sealed) for sealer in sealers} == {DATA}


def test_an_empty_secret_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("\n")
    with pytest.raises(ConfigError, match=SECRET):
        load_sealer({}, tmp_path)


def test_a_folder_that_cannot_hold_the_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"penstock.secret: .*{SECRET}"):
        load_sealer({}, tmp_path / "file")
    (tmp_path / FILE).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="not a text file"):
        load_sealer({}, tmp_path)


def test_without_a_folder_the_secret_ends_with_the_process() -> None:
    sealed = load_sealer({}, None).seal("local", DATA)
    assert load_sealer({}, None).open("local", sealed) is None


def test_a_sealer_does_not_show_its_secret() -> None:
    assert "hunter2" not in repr(Sealer("hunter2", ["hunter2"]))
