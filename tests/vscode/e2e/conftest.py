"""One VS Code, one gateway and one scripted upstream per module, because starting them is slow."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.gateway.upstream import ScriptedUpstream
from tests.installing import InstallError, give_up
from tests.vscode.e2e.browser import Browser, browser
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.install import installed as install

ARTEFACTS = Path(__file__).parents[3] / "artefacts" / "vscode"


@pytest.fixture(scope="session")
def installed() -> Installed:
    try:
        return install()
    except InstallError as missing:
        give_up("VS Code", missing)


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2])


@pytest.fixture(scope="module")
def port() -> int:
    """A free port, for the local gateway."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
    return number


@pytest.fixture(scope="module")
def page(installed: Installed, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Return a browser for the module. Its screenshots are stored under the module's name."""
    with browser(installed, ARTEFACTS / request.module.__name__.rpartition(".")[2]) as opened:
        yield opened
