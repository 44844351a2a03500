"""Opening a store or an archive: the backend depends on the path or URL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store import IN_MEMORY, is_in_use, open_archive, open_store
from penstock.store.memory import MemoryStore
from penstock.store.sqlite.archive import SqliteArchive
from penstock.store.sqlite.store import SqliteStore


async def kind_of(where: str | Path) -> type:
    store = await open_store(where)
    await store.aclose()
    return type(store)


def test_a_path_is_a_file_and_a_url_names_its_backend(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    assert asyncio.run(kind_of(file)) is SqliteStore
    assert asyncio.run(kind_of(str(file))) is SqliteStore
    assert asyncio.run(kind_of(IN_MEMORY)) is MemoryStore


def test_an_archive_is_opened_by_the_path_of_its_store(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    asyncio.run(kind_of(file))
    with open_archive(file) as archive:
        assert isinstance(archive, SqliteArchive)
        assert archive.location == str(file)
        assert archive.stats().total.responses == 0


def test_the_in_memory_store_has_no_archive() -> None:
    with pytest.raises(StoreError) as caught, open_archive(IN_MEMORY):
        pass
    assert caught.value.code == StoreError.MISSING


def test_a_store_is_in_use_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    async def check() -> list[bool]:
        before = is_in_use(path)
        assert not any(tmp_path.iterdir())
        store = await open_store(path)
        during = is_in_use(path)
        await store.aclose()
        return [before, during, is_in_use(path), is_in_use(IN_MEMORY)]

    assert asyncio.run(check()) == [False, True, False, False]
