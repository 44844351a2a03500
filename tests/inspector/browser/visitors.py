"""A browser that visits the gateway's page, and notices whatever the page must never do.

Nothing that a model writes may open a dialog, load anything from elsewhere, or break the page's own rules
(the Content-Security-Policy): all of that would be in `Visit.problems`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

from tests.gateway.running import Running

ARTEFACTS = Path(__file__).parents[3] / "artefacts" / "inspector"
IMAGES = Path(__file__).parents[3] / "docs" / "images"
LARGEST = 200_000
"""Bytes of a picture of the documentation."""
DOCUMENT = (1280, 800)
"""The size of such a picture."""
PHONE = (360, 740)
DESK = (1280, 900)
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

_EXPECTED = re.compile(r"status of (401|404|409|503)|ERR_(CONNECTION_REFUSED|FAILED)")
"""What the browser itself writes to its console about answers that a test causes."""


class Visit:
    """One tab. `page` is Playwright's; `problems` has what must not happen."""

    def __init__(self, page: Page, gateway: Running) -> None:
        self.page, self.gateway = page, gateway
        self.problems: list[str] = []
        self.base = f"{gateway.url}/"
        self._origin = urlsplit(gateway.url).netloc
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.netloc != self._origin:
            self.problems.append(f"request: {request.url}")

    def go(self, place: str = "", *, view: str = "") -> Page:
        """Open a place of the page, such as `#/turns`, and wait until its view is shown."""
        self.page.goto(self.base + place)
        if view:
            self.ready(view)
        return self.page

    def ready(self, view: str) -> None:
        expect(self.page.locator(f'main[data-ready="{view}"]')).to_be_attached()

    def accessibility(self) -> list[str]:
        """Return what axe complains about."""
        self.page.evaluate(
            "Promise.all(document.getAnimations().map((each) => each.finished.catch(() => {})))"
        )
        results = Axe().run(self.page)
        return [
            f"{found['id']}: {node['target']} {node['failureSummary']}"
            for found in results.response["violations"]
            for node in found["nodes"]
        ]

    def too_wide(self) -> list[str]:
        """Return the elements because of which the page scrolls sideways."""
        found: list[str] = self.page.evaluate(_TOO_WIDE)
        return found

    def picture(self, name: str, *, whole: bool = False) -> None:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(ARTEFACTS / f"{name}.png"), full_page=whole, animations="disabled")

    def documentation_picture(self, name: str) -> None:
        """Take a picture, and with PENSTOCK_PICTURES=1 replace the one in the documentation."""
        self.picture(name)
        taken = ARTEFACTS / f"{name}.png"
        size = taken.stat().st_size
        assert size < LARGEST, f"the picture {name} has {size} bytes"
        if os.environ.get("PENSTOCK_PICTURES") == "1":
            IMAGES.mkdir(exist_ok=True)
            shutil.copyfile(taken, IMAGES / f"{name}.png")


_TOO_WIDE = """() => {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    return [...document.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1)
        .map((each) => `${each.tagName}.${each.className}`);
}"""


@contextmanager
def visiting(
    browser: Browser,
    gateway: Running,
    *,
    theme: Theme = "light",
    size: tuple[int, int] = DESK,
    **options: Any,
) -> Iterator[Visit]:
    """Open a tab of its own, and check at its end that nothing has happened that must not."""
    context = browser.new_context(
        color_scheme=theme, viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce", **options
    )
    context.set_default_timeout(15_000)
    try:
        visit = Visit(context.new_page(), gateway)
        yield visit
        assert visit.problems == []
    finally:
        context.close()
