"""A group whose URL has the wrong scheme, in a real VS Code: one sentence says which scheme to use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.client.server import in_a_thread
from tests.gateway.upstream import ScriptedUpstream
from tests.net.certificates import server_context
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.consumers import EXTENSION, ORDERS, Consumer
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server
from tests.vscode.e2e.workbench import EDITOR

pytestmark = pytest.mark.vscode

OURS = Path(__file__).parents[3] / "vscode"


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """Return the host and port of a server that requires TLS."""
    with in_a_thread(ScriptedUpstream(tls=server_context(trustme.CA()))) as server:
        yield server.url.removeprefix("https://")


def test_http_to_a_tls_port_is_one_sentence_that_says_to_use_https(
    installed: Installed, place: str, folder: Path, page: Browser
) -> None:
    orders = folder / "orders"
    orders.mkdir()
    setup = Setup(
        extensions=(OURS, EXTENSION),
        settings={"penstock.pythonPath": sys.executable},
        groups=[{"name": "Lock", "vendor": "penstock", "endpoint": f"http://{place}/v1", "apiKey": "none"}],
        environment={ORDERS: str(orders)},
    )
    sentence = f"Use https:// instead of http://: the server at {place} requires TLS."
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page)
        consumer = Consumer(orders)
        assert consumer.models() == []
        consumer.command("workbench.action.chat.manage")
        page.wait(EDITOR, sentence)
        page.screenshot("wrong-scheme")
        shown = [text for text in page.texts(EDITOR) if sentence in text]
        assert {text.count("https://") for text in shown} == {1}  # there is no other sentence about it
