"""The checks of the port and the store."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from penstock.doctor.machine import check_port, check_store
from penstock.gateway.server import listen
from penstock.gateway.settings import Settings
from penstock.store import open_store
from penstock.version import VERSION
from tests.client.server import answer, run, served
from tests.gateway.threaded import threaded_gateway

ENOUGH = 10**12


def test_a_free_port_is_left_free() -> None:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    listening.close()
    for _ in range(2):
        found = run(check_port(Settings(port=port)))
        assert (found.status, found.sentence) == ("ok", f"port {port} on 127.0.0.1 is free")
    assert run(check_port(Settings(port=0))).status == "ok"


def test_our_own_gateway_is_recognised() -> None:
    with threaded_gateway(Settings()) as running:
        assert running.address.port is not None
        found = run(check_port(Settings(port=running.address.port)))
    assert (found.status, found.details["running"]) == ("ok", VERSION)
    assert "already running" in found.sentence


def test_another_program_on_the_port_is_a_problem() -> None:
    with served([answer(200, {"name": "something else", "version": "9"})]) as other:
        found = run(check_port(Settings(port=other.server.port)))
    assert found.status == "problem"
    assert "another program" in found.sentence
    assert "--port" in found.fix


def test_a_program_that_does_not_speak_http_is_another_program() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"SSH-2.0-x\r\n")
        writer.close()

    async def check() -> str:
        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            return (await check_port(Settings(port=server.sockets[0].getsockname()[1]))).sentence

    assert "another program" in run(check())


def test_an_address_of_another_machine_is_a_problem() -> None:
    found = run(check_port(Settings(host="192.0.2.1", port=1)))
    assert found.status == "problem"
    assert "cannot listen on 192.0.2.1" in found.sentence


def test_a_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "data" / "store.sqlite"
    found = check_store(Settings(store=str(path)), {}, lambda _: ENOUGH)
    assert (found.status, "will be created" in found.sentence) == ("ok", True)
    assert [*tmp_path.iterdir()] == []


def test_a_store_in_use_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    async def check() -> tuple[bool, bool]:
        store = await open_store(path)
        during = check_store(Settings(store=str(path)), {}, lambda _: ENOUGH)
        await store.aclose()
        after = check_store(Settings(store=str(path)), {}, lambda _: ENOUGH)
        assert (during.status, after.status) == ("ok", "ok")
        return bool(during.details["in_use"]), bool(after.details["in_use"])

    assert asyncio.run(check()) == (True, False)


def test_the_default_file_and_the_memory() -> None:
    found = check_store(Settings(), {"XDG_DATA_HOME": "/nowhere-yet"}, lambda _: ENOUGH)
    assert found.details.get("path", "") == "/nowhere-yet/penstock/responses.sqlite"
    assert "in memory" in check_store(Settings(store="none"), {}).sentence


def test_a_file_that_is_not_a_store_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database" * 100)
    found = check_store(Settings(store=str(path)), {}, lambda _: ENOUGH)
    assert (found.status, found.details["code"]) == ("problem", "not_a_store")
    assert path.read_text().startswith("not a database")


def test_a_folder_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = check_store(Settings(store=str(tmp_path / "file" / "store.sqlite")), {}, lambda _: ENOUGH)
    assert (inside.status, "is not a folder" in inside.sentence) == ("problem", True)
    itself = check_store(Settings(store=str(tmp_path)), {}, lambda _: ENOUGH)
    assert (itself.status, "is a folder" in itself.sentence) == ("problem", True)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_a_store_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "it's here.sqlite"
    path.touch(0o640)
    path.chmod(0o640)
    finding = check_store(Settings(store=str(path)), {})
    assert (finding.status, finding.details["mode"]) == ("warning", "0640")
    assert f"'{tmp_path}/it'\"'\"'s here.sqlite'" in finding.fix
    path.chmod(0o600)
    assert check_store(Settings(store=str(path)), {}).status == "ok"


def test_little_disk_space(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "store.sqlite"))
    assert check_store(settings, {}, lambda _: 300_000_000).status == "warning"
    full = check_store(settings, {}, lambda _: 1_000_000)
    assert (full.status, "1.0 MB" in full.sentence) == ("problem", True)


def test_a_port_that_nobody_answers_on_is_reported_as_the_system_does() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, but nothing listens
        found = run(check_port(Settings(port=bound.getsockname()[1])))
    assert found.status == "problem"
    assert "in use" in found.sentence
