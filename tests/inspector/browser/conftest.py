"""One browser for all tests, and one gateway per module, because starting them is slow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.client.server import in_a_thread
from tests.gateway.configs import CONFIG
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import ScriptedUpstream
from tests.inspector.browser.visitors import Visit, visiting


class Visits(Protocol):
    """Open a tab: `visit(theme="dark", size=PHONE)`."""

    def __call__(self, **options: Any) -> Visit: ...


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    if shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed: `apt-get install chromium`")
    expect.set_options(timeout=20_000)  # other tests may run at the same time
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Return Debian's Chromium. Its sandbox does not work for root."""
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
    yield started
    started.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def site(folder: Path, upstream: ScriptedUpstream) -> Iterator[Running]:
    """Return a gateway that needs no key, and records its upstreams."""
    with gateway(folder, "--record", config=CONFIG.format(url=upstream.url)) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, site: Running) -> Iterator[Visits]:
    """Return a function that opens tabs, which are checked and closed when the test has ended."""
    with ExitStack() as tabs:

        def open_tab(**options: Any) -> Visit:
            return tabs.enter_context(visiting(browser, options.pop("gateway", site), **options))

        yield open_tab
