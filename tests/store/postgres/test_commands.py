"""Commands that name a store in PostgreSQL by its URL."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from penstock.application import open_app
from penstock.gateway.history.sealing import FILE, SECRET, Sealer
from penstock.gateway.settings import Settings
from penstock.store.postgres.schema import STEPS
from penstock.store.records import LOCAL
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import complete_turn, events, opened
from tests.store.ledger_records import ended, started
from tests.store.postgres.databases import on_postgres, rows, worker_on


async def penstock(*arguments: str, status: int = 0, variables: Mapping[str, str] | None = None) -> str:
    """Run a command, and return what it prints. A password is never part of that."""

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *arguments]
        environment = {**os.environ, **(variables or {})}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    done = await asyncio.to_thread(run)
    output = done.stdout + done.stderr
    assert done.returncode == status, output
    assert "planted-password" not in output
    return output


@on_postgres
async def test_a_store_is_migrated_filled_read_and_pruned(url: str) -> None:
    await rows(url, "DROP SCHEMA penstock CASCADE")
    assert f"applied {len(STEPS)} steps" in await penstock("store", "migrate", "--store", url)
    assert "nothing to do" in await penstock("store", "migrate", "--store", url)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "responses.sqlite"
        store = await open_sqlite_store(file)
        await complete_turn(store, "resp_1", ["in_1"], ["out_1"], log=events(0, 3), tenant=LOCAL)
        store.settle_turn(ended(started("resp_1"), tokens=10))
        await store.aclose()
        printed = await penstock("store", "import", str(file), "--store", url)
        assert "imported 1 response, 0 conversations and 1 record of the ledger" in printed
        assert "2 records of the file were there" in await penstock(
            "store", "import", str(file), "--store", url
        )
        assert "needs a database" in await penstock("store", "import", str(file), "--store", folder, status=2)
    assert "on disk" in await penstock("store", "stats", "--store", url)
    assert '"disk_bytes":' in await penstock("store", "stats", "--json", "--store", url)
    assert '"id":"resp_1"' in await penstock("store", "export", "resp_1", "--store", url)
    assert "completed" in await penstock("explain", "resp_1", "--store", url)
    assert "alice" in await penstock("usage", "--store", url)
    assert "alice" in await penstock("turns", "--store", url)
    assert "would delete 1 response" in await penstock(
        "store", "prune", "--older-than", "0s", "--dry-run", "--store", url
    )
    assert "deleted 1 response" in await penstock("store", "prune", "--max-size", "1KB", "--store", url)


@asynccontextmanager
async def sealer_of(store: str | Path, **environment: str) -> AsyncIterator[Sealer]:
    """Open a gateway, and yield what seals and opens its items."""
    app = await open_app(Settings(store=str(store)), environment=environment)
    try:
        yield app.gateway.sealer
    finally:
        await app.gateway.aclose()


@on_postgres
async def test_items_that_were_sealed_before_an_import_can_be_opened_after_it(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name / "responses.sqlite" for name in ("one", "other")]
        sealed, secrets = [], []
        for file in files:
            async with sealer_of(file) as sealer:
                sealed.append(sealer.seal(LOCAL, b"a summary"))
            secrets.append(file.with_name(FILE).read_text())
        printed = [await penstock("store", "import", str(file), "--store", url) for file in files]
        assert f"{FILE} was moved as well" in printed[0]
        assert "the database had a secret of its own already" in printed[1]
        assert "Restart those that are running" in printed[1]
        assert not any(secret in text for secret in secrets for text in printed)
    for environment in ({}, {SECRET: "of the environment"}):
        async with sealer_of(url, **environment) as sealer:
            assert [sealer.open(LOCAL, each) for each in sealed] == [b"a summary"] * 2


@on_postgres
async def test_an_import_says_if_the_secret_is_not_with_the_file(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "responses.sqlite"
        async with sealer_of(file, **{SECRET: "planted-password"}):
            assert not file.with_name(FILE).exists()
        command = ("store", "import", str(file), "--store", url)
        assert "there is no penstock.secret next to the file" in await penstock(
            *command, variables={SECRET: ""}
        )
        variables = {SECRET: "planted-password"}
        assert "set it to the same text for every gateway" in await penstock(*command, variables=variables)
        file.with_name(FILE).write_text("")
        assert "penstock.secret: is empty" in await penstock(*command, status=2)


@on_postgres
async def test_what_is_queued_is_not_failed_while_a_gateway_uses_the_database(url: str) -> None:
    async with worker_on(url) as store:
        await store.open(replace(opened("resp_1"), is_background=True), patience=30)
        refused = await penstock("store", "fail-queued", "--store", url, status=2)
        assert "a gateway uses this store" in refused
    printed = await penstock("store", "fail-queued", "--store", url)
    assert "1 background response will not be started; the next gateway ends it as failed" in printed
    assert "no background response" in await penstock("store", "fail-queued", "--store", url)


@on_postgres
async def test_a_database_that_cannot_be_used_is_an_error_with_advice(url: str) -> None:
    nowhere = "postgresql://postgres:planted-password@127.0.0.1:1/postgres"
    assert "cannot be reached" in await penstock("store", "stats", "--store", nowhere, status=2)
    assert "cannot be reached" in await penstock("store", "migrate", "--store", nowhere, status=2)
    await rows(url, "DROP SCHEMA penstock CASCADE")
    assert "penstock store migrate" in await penstock("store", "stats", "--store", url, status=2)
