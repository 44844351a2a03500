"""A file that several processes change: nothing fails because of the lock, or of a reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock import shared_file
from penstock.shared_file import locked, read_start, replace_file


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
