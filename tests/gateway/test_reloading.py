"""Changes of the configuration file: what is applied, and when."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.reloading import FileWatch, reloader_of
from penstock.gateway.server import server_of
from penstock.gateway.settings import ClientKey, Settings
from penstock.gateway.telemetry.logs import log
from penstock.store.memory import MemoryStore

KEY = ClientKey(name="a", digest=b"x" * 32)


def watched(path: Path) -> tuple[FileWatch, list[str]]:
    """Return a watch, and the contents of the file at each change that it reported."""
    changes: list[str] = []
    return FileWatch(path, lambda: changes.append(path.read_text())), changes


def test_a_change_is_reported_once_the_file_is_stable(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("1")
    watch, changes = watched(file)
    watch.poll()
    for text in ("", "22"):  # as an editor that truncates the file before it writes
        file.write_text(text)
        watch.poll()
    assert changes == []
    for _ in range(3):
        watch.poll()
    assert changes == ["22"]


def test_a_replaced_file_and_a_replaced_link_are_changes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "penstock.toml").write_text(name)
        os.utime(tmp_path / name / "penstock.toml", (1, 1))
    folder, file = tmp_path / "data", tmp_path / "data" / "penstock.toml"
    folder.symlink_to("one")
    watch, changes = watched(file)
    (tmp_path / "next").symlink_to("two")  # as Kubernetes does it
    (tmp_path / "next").replace(folder)
    watch.poll()
    watch.poll()
    new = tmp_path / "two" / "new"
    new.write_text("3rd")
    os.utime(new, (1, 1))
    new.replace(file)  # as most editors do it
    watch.poll()
    watch.poll()
    assert changes == ["two", "3rd"]


def test_a_change_while_the_gateway_started_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings were read before the file is watched."""
    monkeypatch.setattr("penstock.gateway.reloading.POLL", 0.0)
    file = tmp_path / "penstock.toml"
    file.write_text("changed")

    async def run() -> None:
        reported = asyncio.Event()
        task = asyncio.create_task(FileWatch(file, reported.set).run())
        async with asyncio.timeout(10):
            await reported.wait()
        task.cancel()

    asyncio.run(run())


def test_a_file_that_may_be_read_again_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("1")
    file.chmod(0)
    watch, changes = watched(file)
    file.chmod(0o600)
    watch.poll()
    watch.poll()
    assert changes == ["1"]


def test_a_removed_file_is_logged_once_and_its_return_is_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("1")
    watch, changes = watched(file)
    file.unlink()
    with caplog.at_level(logging.WARNING, log.name):
        for _ in range(4):
            watch.poll()
    assert [record.message for record in caplog.records] == [
        f"{file} was removed: the gateway keeps its current settings"
    ]
    file.write_text("2")
    watch.poll()
    watch.poll()
    assert changes == ["2"]


def reloaded(before: Settings, after: Settings, *, only_changes: bool = True) -> tuple[Settings, bool]:
    """Return the settings after a reload, and whether it replaced the services."""

    async def run() -> tuple[Settings, bool]:
        gateway = Gateway(before, store=MemoryStore())
        old = gateway.services
        reloader_of(gateway, server_of(GatewayApp(gateway)), lambda: after).reload(only_changes=only_changes)
        result = gateway.services.settings, gateway.services is not old
        await gateway.aclose()
        return result

    return asyncio.run(run())


def test_equal_settings_replace_nothing_unless_asked() -> None:
    assert reloaded(Settings(), Settings()) == (Settings(), False)
    assert reloaded(Settings(), Settings(), only_changes=False)[1]


def test_the_address_and_the_store_stay_until_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    wanted = Settings(host="::1", port=1, store="none", metrics=("127.0.0.1", 2), default_model="demo")
    with caplog.at_level(logging.WARNING, log.name):
        settings, _ = reloaded(Settings(), wanted)
    assert settings == Settings(default_model="demo")
    assert "restart the gateway to apply the new server.host, server.port, server.store, server.metrics" in (
        caplog.text
    )


def test_a_reachable_gateway_keeps_its_last_key_whatever_the_file_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = Settings(host="0.0.0.0", keys=(KEY,))
    with caplog.at_level(logging.ERROR, log.name):
        assert reloaded(before, Settings(host="127.0.0.1")) == (before, False)
    assert "at least one key must stay" in caplog.text


def test_a_reachable_address_for_metrics_keeps_its_token() -> None:
    before = Settings(metrics=("0.0.0.0", 9464), metrics_digest=b"x" * 32)
    assert reloaded(before, replace(before, metrics_digest=b"")) == (before, False)


def test_the_end_of_the_last_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, log.name):
        assert reloaded(Settings(keys=(KEY,)), Settings()) == (Settings(), True)
    assert "there are no keys any more" in caplog.text
