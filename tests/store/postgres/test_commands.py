"""Commands that name a store in PostgreSQL by its URL."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.store.contract import LOCAL
from penstock.store.postgres.schema import STEPS
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import complete_turn, events
from tests.store.ledger_records import ended, started
from tests.store.postgres.databases import on_postgres, rows


async def penstock(*arguments: str, status: int = 0) -> str:
    """Run a command, and return what it prints. A password is never part of that."""

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

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


@on_postgres
async def test_a_database_that_cannot_be_used_is_an_error_with_advice(url: str) -> None:
    nowhere = "postgresql://postgres:planted-password@127.0.0.1:1/postgres"
    assert "cannot be reached" in await penstock("store", "stats", "--store", nowhere, status=2)
    assert "cannot be reached" in await penstock("store", "migrate", "--store", nowhere, status=2)
    await rows(url, "DROP SCHEMA penstock CASCADE")
    assert "penstock store migrate" in await penstock("store", "stats", "--store", url, status=2)
