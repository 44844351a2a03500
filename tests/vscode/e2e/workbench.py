"""What commands show in the window: quick picks, input boxes, notifications, the status bar."""

from __future__ import annotations

from tests.vscode.e2e.browser import LONGEST, Browser
from tests.vscode.e2e.consumers import Consumer

QUICK = ".quick-input-widget"
ROW = ".quick-input-list .monaco-list-row"
TITLE = f"{QUICK} .quick-input-title"
TOAST = ".notifications-toasts .notification-toast"
STATUS = '.statusbar-item[id*="penstock.usage"]'
HOVER = ".workbench-hover-container .monaco-hover"
EDITOR = ".monaco-workbench .part.editor"


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
