"""Ends the servers that the tests have started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres.cluster import remove_shared_cluster


@pytest.fixture(scope="session", autouse=True)
def _servers() -> Iterator[None]:
    yield
    remove_shared_cluster()
