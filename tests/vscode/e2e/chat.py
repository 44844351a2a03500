"""The chat view as a user sees it: ask, wait for the end, read."""

from __future__ import annotations

from tests.vscode.e2e.browser import Browser

COPILOT = "GitHub.copilot-chat"
OPTIONS = {"enabledExtensions": [COPILOT]}
"""The built-in agent is off until a user signs in; this page option turns it on (editor 1)."""

SETTINGS = {
    "chat.tools.global.autoApprove": True,
    "chat.byokUtilityModelDefault": "none",
    "chat.utilityModel": "nobody/none",
    "chat.utilitySmallModel": "nobody/none",
}
"""Tools run without confirmation. The agent's helpers use a model that does not exist, so that they send
no requests during a test. This also hides the banner that asks for such a model."""

SESSION = ".interactive-session"
INPUT_PART = f"{SESSION} .interactive-input-part"
INPUT = f"{INPUT_PART} .monaco-editor"
SIDE_BAR = ".monaco-workbench .part.auxiliarybar"
EDITOR = ".monaco-workbench .part.editor"
SUBMIT = f"{SESSION} .chat-execute-toolbar .chat-submit-button:not(.disabled) a"
ANSWER = f"{SESSION} .interactive-response"
LAST = f"{ANSWER}.chat-most-recent-response"
LOADING = f"{SESSION} .chat-response-loading"
MODEL = f"{SESSION} .model-picker-item"
EFFORT = f"{MODEL} .model-picker-config"
PICKER = ".action-widget"
MODEL_ROW = f"{PICKER} .monaco-list-row.action"


class Chat:
    """The chat view of an open page."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def widen(self) -> None:
        """Widen the view: a narrow one hides the name of the model."""
        self.browser.wait(SESSION)
        self.browser.widen(SIDE_BAR, 260)

    def wait_for_model(self, *names: str) -> None:
        """Wait until one of these is selected; VS Code selects one when it has the list."""
        self.browser.look(lambda: any(name in shown for shown in self.browser.texts(MODEL) for name in names))

    def choose_model(self, name: str) -> None:
        """Select a model in the picker below the input box."""
        self.browser.click(f"{MODEL} .model-picker-name")
        self.browser.wait(f"{PICKER} input")
        self.browser.type(name)  # those that were not used lately are folded away until they are looked for
        self._wait_for_rows(name)  # a row that moves while the list is filtered is not clicked
        self.browser.click(MODEL_ROW, name)
        self.wait_for_model(name)

    def _wait_for_rows(self, name: str) -> None:
        """Wait until the picker shows only the models with this name."""

        def is_filtered() -> bool:
            rows = self.browser.texts(MODEL_ROW)
            return bool(rows) and all(name in row for row in rows)

        self.browser.look(is_filtered)

    def show_tooltip(self, name: str, words: str) -> None:
        """Open the picker, and hover over a model until these words are shown."""
        self.browser.click(f"{MODEL} .model-picker-name")
        self.browser.wait(f"{PICKER} input")
        self.browser.type(name)
        self._wait_for_rows(name)
        self.browser.hover(f"{PICKER} input")  # a row that comes to the pointer is not hovered over
        self.browser.hover(MODEL_ROW)
        self.browser.wait("body", words)

    def show_efforts(self) -> None:
        """Open the effort part of the picker."""
        self.browser.click(EFFORT)
        self.browser.wait(f"{PICKER} .monaco-list-row")

    def choose_effort(self, name: str) -> None:
        """Select an entry in the open list. The list stays open."""
        self.browser.click(f"{PICKER} .monaco-list-row", name)
        self.browser.wait(EFFORT, name)
        self.close_picker()

    def close_picker(self) -> None:
        self.browser.press("Escape")
        self.browser.wait(PICKER, state="hidden")

    def start_new_chat(self) -> None:
        self.browser.command(">Chat: New Chat")
        self.browser.wait(ANSWER, state="hidden")

    def rows(self) -> int:
        """Return the number of questions and answers, including those out of view."""
        shown = self.browser.attributes(f"{SESSION} .interactive-list .monaco-list-row", "data-index")
        return max((int(index or 0) + 1 for index in shown), default=0)

    def send(self, words: str) -> None:
        before = self.rows()
        self.browser.click(INPUT)
        self.browser.press("Control+a")
        self.browser.type(words)
        # Not by Enter: a view that has just become another conversation's loses it, and does not say so.
        self.browser.click(SUBMIT)
        self.browser.hover(EDITOR)  # the button's own hover would stand before what is under it
        self.browser.look(lambda: self.rows() > before)

    def ask(self, words: str) -> str:
        """Send a question, wait for the end of the answer, and return its text."""
        before = self.rows()
        self.send(words)
        self.browser.look(lambda: self.rows() >= before + 2)
        return self.answered()

    def answered(self) -> str:
        self.browser.wait(LOADING, state="detached")
        return self.browser.texts(LAST)[-1]
