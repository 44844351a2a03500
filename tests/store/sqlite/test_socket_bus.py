"""Messages between processes of one machine: private, in order, and lost rather than late."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.sqlite.socket_bus import SocketBus, bus_folder, clear_folder
from tests.net.connections import on_both_loops, run_on
from tests.store.workers import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bus"
    clear_folder(folder)
    return folder


def ignore() -> None:
    """Called when messages may have been lost."""


@on_both_loops
def test_messages_arrive_in_order(folder: Path, loop: str) -> None:
    async def run() -> None:
        first, second = SocketBus(folder), SocketBus(folder)
        received: list[bytes] = []
        first.listen("first", received.append, ignore)
        second.listen("second", lambda _: None, ignore)
        messages = [b"x" * second.most_bytes, *(b"%d" % number for number in range(500))]
        for message in messages:
            second.send("first", message)
        await until(lambda: len(received) == len(messages))
        assert received == messages
        await first.aclose()
        assert [path.name for path in folder.iterdir()] == ["second"]
        await second.aclose()
        assert not folder.exists(), "the last worker removes it"

    run_on(loop, run())


def test_a_message_to_nobody_is_lost(folder: Path) -> None:
    async def run() -> None:
        bus = SocketBus(folder)
        bus.listen("first", lambda _: None, ignore)
        bus.send("unknown", b"news")
        (folder / "dead").touch()
        bus.send("dead", b"news")
        await asyncio.sleep(0.01)
        assert all(link.is_closed for link in bus._links.values())
        await bus.aclose()

    asyncio.run(run())


def test_a_busy_worker_delays_nobody(folder: Path) -> None:
    async def run() -> None:
        busy, other = SocketBus(folder), SocketBus(folder)
        received: list[bytes] = []
        busy.listen("busy", received.append, ignore)
        for _ in range(10_000):  # nothing is read meanwhile
            other.send("busy", b"x" * 10_000)
        other.send("busy", b"end")
        await asyncio.sleep(0.05)
        assert len(received) < 10_000, "what does not fit is lost"
        await busy.aclose()
        await other.aclose()

    asyncio.run(run())


def test_the_folder_is_private_and_is_cleared(folder: Path) -> None:
    (folder / "left by a dead worker").touch()
    clear_folder(folder)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_of_others_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(StoreError) as raised:
        clear_folder(folder)
    assert str(folder) in raised.value.message
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(StoreError):
        clear_folder(link)


def test_a_folder_that_vanishes_while_a_worker_starts_is_created_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last worker of a gateway that ends removes it, and the next gateway may be starting."""
    lstat, calls = Path.lstat, 0

    def lstat_while_it_vanishes(path: Path) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == 1:
            folder.rmdir()
        found = lstat(path)
        if calls == 2:  # before the socket is bound
            folder.rmdir()
        return found

    async def run() -> None:
        bus = SocketBus(folder)
        monkeypatch.setattr(Path, "lstat", lstat_while_it_vanishes)
        bus.listen("first", lambda _: None, ignore)
        assert calls == 3
        assert [path.name for path in folder.iterdir()] == ["first"]
        assert folder.stat().st_mode & 0o077 == 0
        await bus.aclose()

    asyncio.run(run())


def test_a_worker_does_not_listen_in_a_folder_of_others(folder: Path) -> None:
    async def run() -> None:
        folder.chmod(0o777)
        with pytest.raises(StoreError):
            SocketBus(folder).listen("first", lambda _: None, ignore)

    asyncio.run(run())


def test_files_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = bus_folder(tmp_path / "a.db"), bus_folder(tmp_path / "b.db")
    assert first != second
    assert first == bus_folder(tmp_path / "a.db")
    assert len(os.fsencode(first / ("0" * 32))) < 100, "the path of a socket must be short"


def test_a_worker_that_died_is_reached_again_under_its_name(folder: Path) -> None:
    async def run() -> None:
        sender, first = SocketBus(folder), SocketBus(folder)
        received: list[bytes] = []
        first.listen("name", received.append, ignore)
        sender.send("name", b"1")
        await until(lambda: received == [b"1"])
        await first.aclose()
        await until(lambda: sender._links["name"].is_closed)
        second = SocketBus(folder)
        second.listen("name", received.append, ignore)
        sender.send("name", b"2")
        await until(lambda: received == [b"1", b"2"])
        await second.aclose()
        await sender.aclose()

    asyncio.run(run())
