"""A VS Code page, and the actions of a user."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.pictures import keep
from tests.vscode.e2e.servers import end_group

LONGEST = 40_000
"""Milliseconds until a wait fails. It is a limit, not a pause."""

EDGE = 3
"""Pixels between a part of the window and the middle of its sash."""

DRIVER = Path(__file__).with_name("driver.mjs")
WORKBENCH = ".monaco-workbench .part.editor"


class BrowserError(AssertionError):
    """An action on the page failed."""


class Browser:
    """One page. Screenshots go to `artefacts`."""

    def __init__(self, process: subprocess.Popen[bytes], artefacts: Path) -> None:
        self._process, self._artefacts = process, artefacts

    def ask(self, method: str, **fields: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"method": method, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        reply = json.loads(line) if line else {"error": "the browser has ended"}
        if "error" in reply:
            if line and method != "screenshot":
                self.screenshot("failed")
            raise BrowserError(f"{method} {fields}: {reply['error']}")
        return reply["result"]

    def open(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        """Open VS Code and wait for its window."""
        self.ask("open", url=url, options=options)
        self.wait(WORKBENCH)

    def wait(self, selector: str, text: str | None = None, state: str = "visible") -> None:
        self.ask("wait", selector=selector, text=text, state=state, limit=LONGEST)

    def click(self, selector: str, text: str | None = None) -> None:
        self.ask("click", selector=selector, text=text, limit=LONGEST)

    def hover(self, selector: str) -> None:
        self.ask("hover", selector=selector, limit=LONGEST)

    def press(self, keys: str) -> None:
        self.ask("press", keys=keys)

    def type(self, text: str) -> None:
        self.ask("type", text=text)

    def texts(self, selector: str) -> list[str]:
        texts: list[str] = self.ask("texts", selector=selector)
        return texts

    def attributes(self, selector: str, name: str) -> list[str | None]:
        values: list[str | None] = self.ask("attributes", selector=selector, name=name)
        return values

    def loaded(self, selector: str) -> list[bool]:
        """Return for each image whether the page shows it."""
        images: list[bool] = self.ask("loaded", selector=selector)
        return images

    def screenshot(self, name: str) -> Path:
        path = self._artefacts / f"{name}.png"
        self.ask("screenshot", path=str(path))
        return path

    def picture(self, name: str, *selectors: str) -> None:
        """Take a screenshot for the documentation, cropped to these elements."""
        path = self._artefacts.parent / "pictures" / f"{name}.png"
        self.ask("screenshot", path=str(path), selectors=selectors)
        keep(name, path)

    def widen(self, selector: str, pixels: int) -> None:
        """Drag the left edge of a part of the window to the left."""
        box = self.ask("box", selector=selector)
        edge, middle = box["x"] - EDGE, box["y"] + box["height"] / 2
        self.ask("drag", **{"from": [edge, middle], "to": [edge - pixels, middle]})
        self.look(lambda: self.ask("box", selector=selector)["width"] > box["width"] + pixels / 2)

    def frames(self) -> list[str]:
        """Return the texts of the page and of all its frames."""
        texts: list[str] = self.ask("frames")
        return texts

    def command(self, title: str) -> None:
        """Run a command by its name, as a user does."""
        self.press("F1")
        self.wait(".quick-input-widget input")
        self.type(title)
        self.wait(".quick-input-list .monaco-list-row", title.lstrip(">"))
        self.press("Enter")
        self.wait(".quick-input-widget", state="hidden")

    def look(self, is_there: Callable[[], bool]) -> None:
        """Check until the condition is met."""
        deadline = time.monotonic() + LONGEST / 1000
        while not is_there():
            if time.monotonic() > deadline:
                raise BrowserError(f"it never came: see {self.screenshot('failed')}")
            time.sleep(0.1)  # polling interval


@contextmanager
def browser(installed: Installed, artefacts: Path) -> Iterator[Browser]:
    artefacts.mkdir(parents=True, exist_ok=True)
    places = json.dumps({"modules": str(installed.modules), "chromium": str(installed.chromium)})
    with (artefacts / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [str(installed.node), str(DRIVER), places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield Browser(process, artefacts)
    finally:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        end_group(process)
        process.stdout.close()
