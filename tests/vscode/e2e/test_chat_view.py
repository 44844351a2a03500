"""The extension in the real chat view, with VS Code's built-in agent (editor 1)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import Connection, Script, answer
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import gateway
from tests.gateway.scripts import STOP, TOOL_CALLS, call, calls, text
from tests.gateway.upstream import ScriptedUpstream, begun, said, streamed
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.chat import (
    ANSWER,
    EDITOR,
    INPUT_PART,
    LAST,
    MODEL,
    OPTIONS,
    PICKER,
    SESSION,
    SETTINGS,
    Chat,
)
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server

pytestmark = pytest.mark.vscode

Json = dict[str, Any]

OURS = Path(__file__).parents[3] / "vscode"
LARGE, SMALL = "millstream", "puddle"
SMALL_WINDOW = 48_000
"""The agent's prompt and tool descriptions use about half of it."""

UNKNOWN, UNKNOWN_WINDOW = "backwater", 40_000
"""A model whose window no source has: it is below the default."""

THINKER = "undertow"
"""A model that reasons, with no list of its efforts."""

RING = ".chat-context-usage-widget"

CONFIG = f"""
[limits]
retries = 0

[targets.chat]
base_url = "{{url}}/v1"

[targets.chat.quirks]
effort = "openai"

[models.{LARGE}]
target = "chat"
limits = "window:100k output:8k tools reasoning efforts:low/medium/high price:1.25/10/0.125"

[models.{SMALL}]
target = "chat"
limits = "window:{SMALL_WINDOW} output:4k tools"

[models.{UNKNOWN}]
target = "chat"

[models.{THINKER}]
target = "chat"
limits = "window:100k reasoning images"
"""


@pytest.fixture(scope="module")
def window(installed: Installed, upstream: ScriptedUpstream, folder: Path, page: Browser) -> Iterator[Chat]:
    home = folder / "gateway"
    home.mkdir()
    with gateway(home, config=CONFIG.format(url=upstream.url)) as penstock:
        group = {"name": "Gateway", "vendor": "penstock", "endpoint": f"{penstock.url}/v1", "apiKey": "none"}
        settings = {**SETTINGS, "penstock.pythonPath": sys.executable}
        setup = Setup(extensions=(OURS,), settings=settings, groups=[group])
        with code_server(installed, folder / "vscode", setup) as server:
            page.open(server.page, OPTIONS)
            chat = Chat(page)
            chat.widen()
            chat.wait_for_model(LARGE, SMALL, UNKNOWN, THINKER, "Demo", "demo")
            yield chat


@pytest.fixture
def chat(window: Chat) -> Chat:
    window.start_new_chat()
    window.choose_model(LARGE)
    return window


def usage(prompt: int, completion: int = 20) -> Json:
    total = prompt + completion
    return {
        "choices": [],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total},
    }


def test_a_conversation_with_a_tool_call(chat: Chat, upstream: ScriptedUpstream, folder: Path) -> None:
    notes = folder / "vscode" / "workspace" / "notes.txt"
    arguments = json.dumps({"filePath": str(notes), "startLine": 1, "endLine": 2})
    entry = calls(call(0, "call_1", "read_file", arguments))
    thoughts = chat_chunk({"reasoning_content": "The notes will tell when the valve opens."})
    upstream.play(
        LARGE,
        # The whole call comes twice. VS Code would run it twice: once is our work (editor 6).
        streamed(thoughts, entry, entry, TOOL_CALLS, usage(20_000)),
        streamed(*text("The valve opens ", "at **seven**."), STOP, usage(46_000)),
        streamed(*said("You are welcome.")),
    )
    shown = chat.ask("When does the valve open?")
    chat.browser.screenshot("tool-call")
    assert "The valve opens at seven." in shown
    asked = [each.json["messages"] for each in upstream.asked_for(LARGE)]
    results = [message for message in asked[-1] if message["role"] == "tool"]
    assert len(results) == 1
    assert "The valve opens at seven." in str(results[0]["content"])

    assert "You are welcome." in chat.ask("Thank you.")
    chat.browser.click(f"{ANSWER} .monaco-button", "Completed")  # its steps: thinking, and the tool
    chat.browser.click(f"{ANSWER} .monaco-button", "Finished")
    chat.browser.wait(ANSWER, "The notes will tell when the valve opens.")
    chat.browser.hover(EDITOR)
    chat.browser.picture("chat", SESSION)
    messages = upstream.asked_for(LARGE)[-1].json["messages"]
    assert [m["role"] for m in messages].count("system") == 1
    assert "The valve opens at **seven**." in [m["content"] for m in messages if m["role"] == "assistant"]


def test_the_selected_effort_reaches_the_upstream(chat: Chat, upstream: ScriptedUpstream) -> None:
    upstream.play(LARGE, streamed(*said("I have thought about it.")))
    chat.browser.click(f"{MODEL} .model-picker-name")
    chat.browser.wait(f"{PICKER} .monaco-list-row", LARGE)
    chat.browser.click(f"{PICKER} .monaco-list-row", "Other Models")
    chat.browser.wait(f"{PICKER} .monaco-list-row", SMALL)
    chat.browser.picture("models", PICKER, INPUT_PART)
    chat.close_picker()
    chat.show_efforts()
    chat.browser.picture("effort", PICKER, INPUT_PART)
    chat.choose_effort("High")
    chat.ask("Think about it.")
    assert upstream.asked_for(LARGE)[-1].json["reasoning_effort"] == "high"

    # "Automatic" sends no effort: the endpoint decides (decision 29).
    chat.show_efforts()
    chat.choose_effort("Automatic")
    chat.ask("And again.")
    assert "reasoning_effort" not in upstream.asked_for(LARGE)[-1].json


def test_the_context_ring_is_filled(chat: Chat, upstream: ScriptedUpstream) -> None:
    upstream.play(LARGE, streamed(*text("Filled."), STOP, usage(46_000)))
    chat.ask("How full is it?")
    chat.browser.wait(RING)
    (label,) = chat.browser.attributes(RING, "aria-label")
    chat.browser.hover(RING)
    chat.browser.screenshot("context-ring")
    assert label == "Context window usage: 46%"


ERRORS: dict[str, Script] = {
    "refused": [answer(401, {"error": {"message": "No such key"}})],
    "limited": [answer(429, {"error": {"message": "Slow down"}}, retry_after="30")],
    "empty": streamed(STOP, usage(10)),
    "broken": begun(*text("Half of an ", "answer")),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_one_readable_sentence(chat: Chat, upstream: ScriptedUpstream, name: str) -> None:
    upstream.play(LARGE, ERRORS[name])
    shown = chat.ask("Well?")
    chat.browser.screenshot(f"error-{name}")
    if name == "limited":
        chat.browser.picture("error", LAST)
    _, separator, reason = shown.partition("Reason: ")
    assert separator, shown
    sentence = reason.splitlines()[0]
    assert len(sentence) > 20
    assert "{" not in shown
    assert ".js:" not in shown
    assert ("Half of an answer" in shown) == (name == "broken")


class SmallModel:
    """Returns long answers, and rejects a prompt that is longer than its context window.

    `error` is the message, with the `tokens` of the prompt.
    """

    def __init__(self, window: int, error: str, words: int) -> None:
        self._window, self._error, self._words = window, error, words
        self.refused = 0
        self.prompts: list[int] = []
        self.summaries = 0

    async def __call__(self, connection: Connection) -> None:
        asked = connection.server.asked[-1]
        tokens = len(asked.body) // 4
        self.prompts.append(tokens)
        self.summaries += "summar" in str(asked.json["messages"][-1]["content"]).lower()
        if tokens > self._window:
            self.refused += 1
            await answer(400, {"error": {"message": self._error.format(tokens=tokens)}})(connection)
            return
        words = text("It is a long story of water. " * (self._words // 7))
        for step in streamed(*words, STOP, usage(tokens, self._words)):
            await step(connection)


def test_a_long_conversation_fits_a_small_window(chat: Chat, upstream: ScriptedUpstream) -> None:
    model = SmallModel(SMALL_WINDOW, "Input is too long for requested model.", 3_500)
    upstream.play(SMALL, [model])
    chat.choose_model(SMALL)
    answers = [chat.ask(f"Tell me chapter {chapter}.") for chapter in range(1, 9)]
    chat.browser.screenshot("small-window")
    assert model.refused == 0
    # VS Code asked for a summary when the window was nearly full, and went on with that.
    assert model.summaries > 0
    assert model.prompts[-1] < max(model.prompts)
    assert all("It is a long story of water." in each for each in answers)


def test_an_overflow_teaches_the_limit_and_the_conversation_goes_on(
    chat: Chat, upstream: ScriptedUpstream
) -> None:
    error = (
        f"This model's maximum context length is {UNKNOWN_WINDOW} tokens. However, you requested {{tokens}}."
    )
    model = SmallModel(UNKNOWN_WINDOW, error, 8_000)
    upstream.play(UNKNOWN, [model])
    chat.choose_model(UNKNOWN)
    chat.show_tooltip(UNKNOWN, "61,440 tokens in, 4,096 out (a default, because no source has it)")
    chat.browser.screenshot("default-window")
    chat.close_picker()
    answers, chapters = list[str](), count(1)
    while not model.refused:
        answers.append(chat.ask(f"Tell me chapter {next(chapters)}."))
    chat.browser.screenshot("refused")
    *chapters_before, refusal = answers
    assert all("It is a long story of water." in each for each in chapters_before)
    sentence = refusal.partition("Reason: ")[2].splitlines()[0]
    assert sentence == (
        f"The conversation is too long ({model.prompts[-1]:,} tokens; the model's limit is "
        f"{UNKNOWN_WINDOW:,}, which is now known): try again, start a new one, or attach less."
    )

    chat.show_tooltip(UNKNOWN, f"35,904 tokens in, 4,096 out (learned on {datetime.now(UTC):%Y-}")
    chat.browser.screenshot("learned-window")
    chat.close_picker()
    refused = model.refused
    after = [chat.ask(f"Tell me chapter {next(chapters)}.") for _ in range(4)]
    chat.browser.screenshot("learned-conversation")
    assert all("It is a long story of water." in each for each in after)
    assert model.refused == refused
    assert model.summaries > 0


def test_a_reasoning_model_without_listed_efforts_has_a_picker(
    chat: Chat, upstream: ScriptedUpstream
) -> None:
    upstream.play(THINKER, streamed(*said("I have thought about it.")))
    chat.choose_model(THINKER)
    chat.show_efforts()
    chat.browser.screenshot("default-efforts")
    shown = "\n".join(chat.browser.texts(f"{PICKER} .monaco-list-row"))
    assert [word for word in ("Automatic", "Low", "Medium", "High") if word not in shown] == []
    chat.choose_effort("Low")
    chat.ask("Think about it.")
    assert upstream.asked_for(THINKER)[-1].json["reasoning_effort"] == "low"
    chat.show_tooltip(THINKER, "100K")
    chat.browser.screenshot("capabilities")
    (row,) = chat.browser.texts(f"{PICKER} .monaco-list-row.action")
    chat.close_picker()
    assert "vision, tools, thinking · 100K" in row
