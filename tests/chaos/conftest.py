"""One server of PostgreSQL for all scenarios. It keeps what it has reported as committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres.cluster import PostgresCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[PostgresCluster]:
    # A crash of the server, not of the machine: what it has written survives without fsync.
    server = PostgresCluster(settings=("fsync=off",))
    server.start()
    yield server
    server.remove()
