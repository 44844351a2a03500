"""VS Code without our extension: its built-in Custom Endpoint with the gateway (editor 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.connect.gateway import ConnectedGateway
from penstock.connect.vscode_models import vscode_group
from tests.client.server import answer
from tests.gateway.running import Running, gateway
from tests.gateway.scripts import TOOL_CALLS, call, calls, text
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, said, streamed
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.chat import OPTIONS, SETTINGS, Chat
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server

pytestmark = pytest.mark.vscode

Json = dict[str, Any]

MODEL = "river"
CONFIG = """
passthrough = "chat"

[limits]
retries = 0

[targets.chat]
base_url = "{url}/v1"
"""


@pytest.fixture(scope="module")
def penstock(upstream: ScriptedUpstream, folder: Path) -> Iterator[Running]:
    home = folder / "gateway"
    home.mkdir()
    with gateway(home, config=CONFIG.format(url=upstream.url)) as running:
        yield running


@pytest.fixture(scope="module")
def window(installed: Installed, penstock: Running, folder: Path, page: Browser) -> Iterator[Chat]:
    """VS Code with the configuration that `penstock connect vscode` shows."""
    connected = ConnectedGateway(base_url=f"{penstock.url}/v1", model=MODEL)
    setup = Setup(groups=[vscode_group(connected)], settings=SETTINGS)
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page, OPTIONS)
        chat = Chat(page)
        chat.wait_for_model(MODEL)
        yield chat


@pytest.fixture
def chat(window: Chat) -> Chat:
    window.start_new_chat()
    return window


class Turns:
    """The responses that the gateway has stored since this object was created."""

    def __init__(self, penstock: Running) -> None:
        self._penstock, self._before = penstock, len(self._logged(penstock))

    @staticmethod
    def _logged(penstock: Running) -> list[Json]:
        return [line for line in penstock.log if line.get("event") == "turn"]

    def ids(self) -> list[str]:
        return [line["response_id"] for line in self._logged(self._penstock)[self._before :]]

    def responses(self) -> list[Json]:
        return [self._penstock.ask(None, f"/v1/responses/{id}", method="GET").json for id in self.ids()]


def forget(penstock: Running, response_id: str) -> None:
    connection = penstock.connect()
    connection.request("DELETE", f"/v1/responses/{response_id}")
    assert connection.getresponse().status == 200
    connection.close()


@pytest.fixture
def turns(penstock: Running) -> Turns:
    return Turns(penstock)


def test_follow_up_turns_send_only_what_is_new(chat: Chat, turns: Turns, upstream: ScriptedUpstream) -> None:
    words = ["The first word is water.", "The second word is wheel.", "The third word is mill."]
    upstream.play(MODEL, *(streamed(*said(each)) for each in words))
    before = len(upstream.asked)
    for turn, expected in enumerate(words):
        assert expected in chat.ask(f"Word number {turn + 1}, please.")
    chat.browser.screenshot("three-turns")

    first, second, third = turns.responses()
    assert first["previous_response_id"] is None
    assert second["previous_response_id"] == first["id"]
    assert third["previous_response_id"] == second["id"]
    # The upstream keeps nothing: the gateway gives it the whole conversation each time.
    asked = [each.json["messages"] for each in upstream.asked[before:]]
    assert len(asked) == 3
    assert [m["content"] for m in asked[2] if m["role"] == "assistant"] == words[:2]


def test_a_tool_is_run_once_and_its_result_sent_back(
    chat: Chat, turns: Turns, upstream: ScriptedUpstream, folder: Path
) -> None:
    notes = folder / "vscode" / "workspace" / "notes.txt"
    arguments = f'{{"filePath": "{notes}", "startLine": 1, "endLine": 2}}'
    entry = calls(call(0, "call_1", "read_file", arguments))
    # The whole call comes twice, as some upstreams send it; VS Code would run it twice (editor 6).
    upstream.play(MODEL, streamed(entry, entry, TOOL_CALLS, USAGE), streamed(*said("It opens at seven.")))
    before = len(upstream.asked)
    assert "It opens at seven." in chat.ask("When does the valve open?")

    first, second = turns.responses()
    assert [item["type"] for item in first["output"]] == ["function_call"]
    assert second["previous_response_id"] == first["id"]
    results = [m for m in upstream.asked[before:][1].json["messages"] if m["role"] == "tool"]
    assert len(results) == 1
    assert "The valve opens at seven." in str(results[0]["content"])


def test_a_lost_session_is_sent_again_in_full(
    chat: Chat, turns: Turns, penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play(MODEL, streamed(*said("Remember the otter.")), streamed(*said("It was an otter.")))
    before = len(upstream.asked)
    chat.ask("Name an animal.")
    (lost,) = turns.ids()
    forget(penstock, lost)

    shown = chat.ask("Which animal was it?")
    chat.browser.screenshot("lost-session")
    assert "It was an otter." in shown
    assert "previous_response" not in shown
    second = turns.responses()[-1]
    assert second["previous_response_id"] is None
    messages = upstream.asked[before:][1].json["messages"]
    assert "Remember the otter." in [m["content"] for m in messages if m["role"] == "assistant"]


def test_a_failed_stream_keeps_its_text_and_reports_the_reason(
    chat: Chat, upstream: ScriptedUpstream
) -> None:
    upstream.play(MODEL, begun(*text("Half of an ", "answer")), streamed(*said("Whole again.")))
    shown = chat.ask("Say something long.")
    chat.browser.screenshot("failed-stream")
    assert "Half of an answer" in shown
    assert "Sorry, your request failed" in shown
    assert "Whole again." in chat.ask("Once more.")


def test_a_rejected_request_reports_the_reason(chat: Chat, upstream: ScriptedUpstream) -> None:
    refusal = {"error": {"message": "The key is not good.", "type": "invalid_request_error"}}
    upstream.play(MODEL, [answer(401, refusal)])
    shown = chat.ask("Hello?")
    chat.browser.screenshot("refused")
    assert "Sorry, your request failed" in shown
