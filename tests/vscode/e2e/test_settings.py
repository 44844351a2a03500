"""Settings that change how turns are shown, sent and logged, in a real VS Code with its agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import streams
from tests.client.server import Script, answer, streamed
from tests.gateway.upstream import ScriptedUpstream
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.chat import LAST, OPTIONS, SETTINGS, Chat
from tests.vscode.e2e.consumers import EXTENSION, ORDERS, Consumer
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server
from tests.vscode.e2e.workbench import Workbench

pytestmark = pytest.mark.vscode

Json = dict[str, Any]

OURS = Path(__file__).parents[3] / "vscode"
MODEL = "weirkeeper"
MODELS: Script = [
    answer(200, {"data": [{"id": MODEL, "context_length": 200_000, "supported_parameters": ["tools"]}]})
]
RECENT = "Penstock: recent turns"
KEY = "sk-of-the-weir-0123456789"

RIVER, LOCK = "https://river.example/a_(b)", "https://lock.example/"
RIVER_LINK = "https://river.example/a_%28b%29"


@pytest.fixture(scope="module")
def endpoint(upstream: ScriptedUpstream) -> ScriptedUpstream:
    """Return an endpoint for the Responses API, without a gateway in between."""
    upstream.play("", MODELS)
    return upstream


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    """Return a file with the log of the Python backend.

    Output channels are files of a native module, which this VS Code is installed without.
    """
    return folder / "host.log"


@pytest.fixture(scope="module")
def window(
    installed: Installed, endpoint: ScriptedUpstream, folder: Path, log: Path, page: Browser
) -> Iterator[Workbench]:
    orders = folder / "orders"
    orders.mkdir()
    program = folder / "penstock"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@" 2>>"{log}"\n')
    program.chmod(0o755)
    setup = Setup(
        extensions=(OURS, EXTENSION),
        settings={**SETTINGS, "penstock.pythonPath": str(program), "penstock.logLevel": "trace"},
        groups=[{"name": "Weir", "vendor": "penstock", "endpoint": f"{endpoint.url}/v1"}],
        environment={ORDERS: str(orders)},
    )
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page, OPTIONS)
        chat = Chat(page)
        chat.widen()
        chat.wait_for_model(MODEL)
        yield Workbench(page, Consumer(orders))
        page.screenshot("after-all")


@pytest.fixture
def workbench(window: Workbench) -> Iterator[Workbench]:
    """Return the window. The settings that a test changes are reset after it."""
    yield window
    for name in ("citations", "errorsAsText", "systemRole"):
        window.consumer.configure(f"penstock.{name}", None)
    window.clear()


@pytest.fixture
def chat(workbench: Workbench) -> Chat:
    chat = Chat(workbench.browser)
    chat.start_new_chat()
    return chat


def said(text: str) -> Script:
    written, message = streams.message("msg_1", 0, [text])
    return streamed(streams.response(written, [message]))


def cited(text: str, *sources: tuple[str, str]) -> Script:
    """Return an answer with citations, each given as (URL, title), which the final response repeats."""
    written, message = streams.message("msg_1", 0, [text])
    annotations = [
        {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 0}
        for url, title in sources
    ]
    events = [
        {
            "type": "response.output_text.annotation.added",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "annotation_index": index,
            "annotation": annotation,
        }
        for index, annotation in enumerate(annotations)
    ]
    message["content"][0]["annotations"] = annotations
    return streamed(streams.response([*written[:3], *events, *written[3:]], [message]))


SOURCES = ((RIVER, "Rivers [draft]\n# of *Europe*"), (LOCK, ""), (RIVER, "Rivers"))


def links(chat: Chat) -> list[tuple[str, str | None]]:
    selector = f"{LAST} .rendered-markdown a"
    return [*zip(chat.browser.texts(selector), chat.browser.attributes(selector, "data-href"), strict=True)]


LINKS = [("Rivers [draft] # of *Europe*", RIVER_LINK), ("lock.example", LOCK)]


def test_citations_are_a_numbered_list_of_links_after_the_answer(
    chat: Chat, endpoint: ScriptedUpstream
) -> None:
    endpoint.play(MODEL, cited("1. Water flows.\n2. It falls.", *SOURCES), said("You are welcome."))
    shown = chat.ask("What does water do?")
    chat.browser.screenshot("citations-end")
    assert "It falls." in shown
    assert links(chat) == LINKS
    assert len(chat.browser.texts(f"{LAST} .rendered-markdown ol")) == 2
    assert len(chat.browser.texts(f"{LAST} .rendered-markdown ol:last-of-type li")) == 2

    # The editor returns the list with the answer, and the follow-up still sends only what is new.
    chat.ask("Thank you.")
    assert endpoint.asked_for(MODEL)[-1].json["previous_response_id"] == "resp_1"


def test_citations_can_be_links_in_the_text(
    chat: Chat, workbench: Workbench, endpoint: ScriptedUpstream
) -> None:
    workbench.consumer.configure("penstock.citations", "inline")
    endpoint.play(MODEL, cited("Water flows.", *SOURCES))
    chat.ask("What does water do?")
    chat.browser.screenshot("citations-inline")
    assert links(chat) == [*LINKS, ("Rivers", RIVER_LINK)]
    assert chat.browser.texts(f"{LAST} .rendered-markdown ol") == []

    workbench.consumer.configure("penstock.citations", "off")
    chat.ask("And now?")
    assert links(chat) == []


def test_errors_can_be_text(chat: Chat, workbench: Workbench, endpoint: ScriptedUpstream) -> None:
    endpoint.play(MODEL, [answer(429, {"error": {"message": "Slow down"}}, retry_after="99")])
    assert "Sorry, your request failed." in chat.ask("Well?")
    workbench.consumer.configure("penstock.errorsAsText", True)
    chat.start_new_chat()
    shown = chat.ask("Well?")
    chat.browser.screenshot("error-as-text")
    assert "Error: Too many requests: wait 99 s and try again (Slow down)." in shown
    assert "Sorry" not in shown


def test_system_messages_can_be_developer_messages(
    chat: Chat, workbench: Workbench, endpoint: ScriptedUpstream
) -> None:
    endpoint.play(MODEL, said("Yes."))
    roles = []
    for role in ("system", "developer"):
        workbench.consumer.configure("penstock.systemRole", role)
        chat.start_new_chat()
        chat.ask("Are you there?")
        roles.append(endpoint.asked_for(MODEL)[-1].json["input"][0]["role"])
    assert roles == ["system", "developer"]


def test_the_trace_has_the_events_of_a_turn_and_no_content(
    chat: Chat, endpoint: ScriptedUpstream, log: Path
) -> None:
    endpoint.play(MODEL, cited("The canary sings.", (LOCK, "Canary")))
    chat.ask("Does the canary sing?")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    traced = [line for line in lines if line["level"] == "trace"]
    traced = [line for line in traced if line["id"] == traced[-1]["id"]]
    (delta,) = (line for line in traced if line["message"] == "response.output_text.delta")
    assert (delta["item"], delta["index"], delta["parts"]) == ("msg_1", 0, [{"kind": "text", "size": 17}])
    (end,) = (line for line in traced if line["message"] == "response.completed")
    assert [part["kind"] for part in end["parts"]] == ["text"]  # the list of sources
    assert "canary" not in log.read_text().lower()


HOSTILE = f"| The weir is closed, key {KEY} of http://a:b@x.example/?token=c. $(flame) [x](command:quit)"


def test_a_hostile_error_in_recent_turns_is_short_and_masked(
    chat: Chat, workbench: Workbench, endpoint: ScriptedUpstream
) -> None:
    page = f"{HOSTILE}\n\n# Closed\n{'<p>weir</p>' * 500}"
    endpoint.play(MODEL, [answer(400, {"error": {"message": page, "code": page}})])
    chat.ask("Well?")
    workbench.run("showRecent")
    row = workbench.rows(RECENT)[0]
    workbench.browser.screenshot("hostile-list")
    assert "The weir is closed, key [key] of http://[key]@x.example/?token=[key]" in row
    assert "$ (flame)" in row
    assert len(row) < 600
    workbench.pick(RECENT, "The weir is closed")
    workbench.shown("The weir is closed, key [key]", "invalid_request")
    workbench.browser.screenshot("hostile-page")
    shown = "\n".join(workbench.browser.frames())
    assert KEY not in shown
    assert "token=c" not in shown
