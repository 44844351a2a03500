"""What commands show in the window: quick picks, input boxes, notifications, the status bar."""

from __future__ import annotations

from collections.abc import Sequence

from tests.vscode.e2e.browser import LONGEST, Browser
from tests.vscode.e2e.consumers import Consumer

QUICK = ".quick-input-widget"
ROW = ".quick-input-list .monaco-list-row"
TITLE = f"{QUICK} .quick-input-title"
TOAST = ".notifications-toasts .notification-toast"
STATUS = '.statusbar-item[id*="penstock.usage"]'
HOVER = ".workbench-hover-container .monaco-hover"
EDITOR = ".monaco-workbench .part.editor"
STEPS = ".getting-started-step"
PICTURE = ".getting-started-media img"
PARTS = (".getting-started-category:visible", ".getting-started-detail-container", PICTURE)
"""The title, the steps and the picture of a walkthrough."""

INSTALLING = 180_000
"""Milliseconds until waiting for pip fails. It is a limit, not a pause."""


class Workbench:
    """A window in which another extension starts commands and a user answers."""

    def __init__(self, browser: Browser, consumer: Consumer) -> None:
        self.browser, self.consumer = browser, consumer

    def run(self, command: str) -> None:
        """Start one of our commands."""
        self.consumer.command(f"penstock.{command}")

    def rows(self, title: str) -> list[str]:
        """Wait for a list and return its rows."""
        self.browser.wait(TITLE, title)
        self.browser.wait(ROW)
        return [row for row in self.browser.texts(ROW) if row]

    def pick(self, title: str, row: str) -> None:
        self.browser.wait(TITLE, title)
        self.browser.click(ROW, row)

    def enter(self, title: str, text: str) -> None:
        """Fill in an input box, replacing its text."""
        self.browser.wait(TITLE, title)
        self.browser.press("Control+a")
        self.browser.type(text)
        self.browser.press("Enter")

    def notified(self, words: str, within: int = LONGEST) -> None:
        self.browser.ask("wait", selector=TOAST, text=words, limit=within)

    def press_button(self, words: str) -> None:
        """Press a button of a notification."""
        self.browser.click(f"{TOAST} .monaco-button", words)

    def clear(self) -> None:
        """Close what an earlier test left open."""
        self.consumer.command("notifications.clearAll")
        self.consumer.command("workbench.action.closeAllEditors")
        self.browser.wait(TOAST, state="hidden")

    def shown(self, *words: str) -> None:
        """Wait for a page with all of these words."""
        self.browser.look(
            lambda: any(all(word in frame for word in words) for frame in self.browser.frames()[1:])
        )

    def status(self) -> str:
        """Return the text of our status bar entry, or "" if it is hidden."""
        return " ".join(" ".join(self.browser.texts(STATUS)).split())

    def hover_status(self) -> list[list[str]]:
        """Return the table in the hover, row by row."""
        self.browser.hover(STATUS)
        self.browser.wait(f"{HOVER} table")
        return [row.split("\t") for row in self.browser.texts(f"{HOVER} table tr")]

    def leave_status(self) -> None:
        self.browser.hover(EDITOR)
        self.browser.wait(f"{HOVER} table", state="hidden")


class Walkthrough:
    """The open walkthrough of an extension. The id of a step ends with the id in package.json."""

    def __init__(self, browser: Browser, id: str) -> None:
        self.browser, self.id = browser, id

    def steps(self) -> list[str]:
        """Wait for the steps and return their ids."""
        self.browser.wait(STEPS)
        ids = self.browser.attributes(STEPS, "data-step-id")
        return [str(each).removeprefix(f"{self.id}#") for each in ids]

    def select(self, step: str) -> None:
        """Open a step; it shows its text and its picture."""
        selector = f'{STEPS}[data-step-id="{self.id}#{step}"]'
        self.browser.click(f"{selector} .step-title")
        self.browser.wait(f"{selector}.expanded")

    def wait_for_picture(self, text: str) -> None:
        """Wait until the open step shows a picture with this text, not only the text."""
        picture = f'{PICTURE}[alt="{text}"]'
        self.browser.wait(picture)
        self.browser.look(lambda: self.browser.loaded(picture) == [True])

    def links(self) -> Sequence[str]:
        """Return the buttons of the open step."""
        return self.browser.texts(f"{STEPS}.expanded .monaco-button")

    def follow(self, link: str) -> None:
        """Press a button of the open step."""
        self.browser.click(f"{STEPS}.expanded .monaco-button", link)

    def is_complete(self, step: str) -> bool:
        selector = f'[data-done-step-id="{self.id}#{step}"]'
        return self.browser.attributes(selector, "aria-checked") == ["true"]
