"""A file that several processes change: nothing fails because of the lock, or of a reader."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock import shared_file
from penstock.shared_file import (
    is_planted,
    locked,
    open_private,
    read_start,
    replace_file,
    replace_keeping_mode,
    replace_with_backup,
)


def test_a_lock_that_another_process_keeps_does_not_prevent_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("penstock.shared_file.time.sleep", waits.append)
    path = tmp_path / "file"
    with locked(path):
        assert waits == []
        with locked(path):  # another descriptor, as in another process
            replace_file(path, b"changed")
    assert path.read_bytes() == b"changed"
    assert sum(waits) == pytest.approx(shared_file.LOCK_WAIT)


def test_a_lock_is_released_if_the_change_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with pytest.raises(LookupError), locked(path):
        raise LookupError
    waits: list[float] = []
    monkeypatch.setattr("penstock.shared_file.time.sleep", waits.append)
    with locked(path):
        assert waits == []


def test_a_folder_without_locks_does_not_prevent_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(shared_file, "lock_descriptor", unsupported)
    with locked(tmp_path / "file"):
        replace_file(tmp_path / "file", b"changed")
    (tmp_path / "not a folder").write_text("")
    with locked(tmp_path / "not a folder" / "file"):
        pass
    assert read_start(tmp_path / "file", 4) == b"chan"


def test_a_file_that_another_process_has_open_is_replaced_a_little_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, refusals, waits = os.replace, [PermissionError(), PermissionError()], list[float]()

    def refused_at_first(source: str, target: Path) -> None:
        if refusals:
            raise refusals.pop()
        replace(source, target)

    monkeypatch.setattr("penstock.shared_file.os.replace", refused_at_first)
    monkeypatch.setattr("penstock.shared_file.time.sleep", waits.append)
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(waits) == 2

    refusals[:] = [PermissionError() for _ in range(100)]
    with pytest.raises(PermissionError):
        replace_file(tmp_path / "file", b"newer")
    assert os.listdir(tmp_path) == ["file"]


# A user's file


def test_a_users_file_is_replaced_and_the_old_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"old")
    path.chmod(0o640)
    backup = replace_with_backup(path, b"new")
    assert backup == tmp_path / "config.toml.bak"
    assert (path.read_bytes(), backup.read_bytes()) == (b"new", b"old")
    assert [each.stat().st_mode & 0o777 for each in (path, backup)] == [0o640, 0o640]


def test_a_new_file_has_no_backup_and_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert replace_with_backup(path, b"new") is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_backup_never_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"0")
    backups = [replace_with_backup(path, str(number).encode()) for number in (1, 2, 3)]
    assert [each.name for each in backups if each] == [f"config.toml.bak{end}" for end in ("", "2", "3")]
    assert [each.read_bytes() for each in backups if each] == [b"0", b"1", b"2"]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "config.toml", tmp_path / "config.toml"
    real.parent.mkdir()
    real.write_bytes(b"old")
    link.symlink_to(real)
    assert replace_with_backup(link, b"new") == tmp_path / "dotfiles" / "config.toml.bak"
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_nothing_is_lost_if_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"old")

    def no_space(_: str, __: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("penstock.shared_file.os.replace", no_space)
    with pytest.raises(OSError, match="no space"):
        replace_with_backup(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["config.toml", "config.toml.bak"]


def test_a_file_is_not_changed_if_there_can_be_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"old")

    def refused(_: Path, __: Path) -> None:
        raise PermissionError("permission denied")

    monkeypatch.setattr("penstock.shared_file.shutil.copy2", refused)
    with pytest.raises(PermissionError):
        replace_with_backup(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_change_that_somebody_else_made_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"theirs")
    for before in (b"", b"old"):
        with pytest.raises(FileExistsError, match="another program has changed it"):
            replace_with_backup(path, b"ours", before=before)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"theirs", [path])
    assert replace_with_backup(path, b"ours", before=b"theirs")
    assert replace_with_backup(tmp_path / "new", b"ours", before=b"") is None


def test_concurrent_changes_keep_every_version(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"first")
    versions = [f"version {number}".encode() for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        backups = list(pool.map(lambda data: replace_with_backup(path, data), versions))
    assert len(set(backups)) == len(versions)
    assert {each.read_bytes() for each in tmp_path.iterdir()} == {b"first", *versions}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_a_private_file_is_for_its_owner_only_and_loses_an_old_mode_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    mask = os.umask(0)
    try:
        with open(path, "wb", opener=open_private) as opened:
            opened.write(b"a")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    os.close(open_private(path, os.O_WRONLY | os.O_APPEND))
    assert path.stat().st_mode & 0o777 == 0o644
    os.close(open_private(path, os.O_WRONLY | os.O_TRUNC))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_keeps_its_mode_and_is_whole_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    replace_keeping_mode(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(PermissionError):
        replace_keeping_mode(path, b"newer")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such folders")
def test_a_link_is_planted_only_in_a_folder_that_everyone_can_write_to(tmp_path: Path) -> None:
    target, link, missing = tmp_path / "target", tmp_path / "link", tmp_path / "missing"
    target.touch()
    link.symlink_to(target)
    assert not is_planted(link)
    tmp_path.chmod(0o1777)
    assert [is_planted(each) for each in (link, target, missing)] == [True, False, False]
