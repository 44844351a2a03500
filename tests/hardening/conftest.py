from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.raw_sockets import close_all
from tests.hardening.attacked import Attacked, attacked


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A gateway for one file of tests."""
    with attacked(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()
