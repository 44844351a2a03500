"""A client's keys to its own tool servers are sent to the upstream, and stored and logged nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.scripts import RESPONSES, RICH, body
from tests.gateway.stored_responses import get
from tests.gateway.upstream import (
    ScriptedUpstream,
)

pytestmark = pytest.mark.e2e


SERVER = {
    "type": "mcp",
    "server_label": "files",
    "server_url": "http://127.0.0.1:9/mcp",
    "authorization": SECRET_KEY,
    "headers": {"x-token": SECRET_KEY},
}


ASKED = {"type": "message", "role": "user", "content": "what is in the folder?"}


def test_keys_of_tool_servers_reach_the_upstream_and_are_stored_nowhere(tmp_path: Path) -> None:
    scripted = ScriptedUpstream()
    scripted.play(RESPONSES, body(RICH[RESPONSES]()), body(RICH[RESPONSES]()))
    with in_a_thread(scripted):
        config = f'passthrough = "up"\n[targets.up]\npreset = "openai"\nbase_url = "{scripted.url}/v1"\n'
        more = {"type": "additional_tools", "role": "developer", "tools": [SERVER]}
        with gateway(
            tmp_path, "--record", config=config, environment={"OPENAI_API_KEY": SECRET_KEY}
        ) as running:
            first = running.stream(RESPONSES, input=[more, ASKED], tools=[SERVER])
            again = running.stream(RESPONSES, input="and now?", previous_response_id=first.last["id"])
            kept = running.ask(path=f"/v1/responses/{first.last['id']}", method="GET")
            items = running.ask(path=f"/v1/responses/{again.last['id']}/input_items", method="GET")
        sent = scripted.asked_for(RESPONSES)[0]
    assert sent.json["tools"][0]["authorization"] == SECRET_KEY
    public = {name: SERVER[name] for name in ("type", "server_label", "server_url")}
    assert first.last["tools"] == [public, public]  # declared in `tools`, and in the input
    for reply in (first, again, kept, items):
        assert SECRET_KEY.encode() not in reply.body
    exported = subprocess.run(
        [sys.executable, "-m", "penstock", "store", "export", "--store", str(tmp_path / "store.sqlite")],
        capture_output=True,
        check=True,
    ).stdout
    assert b"server_label" in exported
    assert SECRET_KEY.encode() not in exported


def test_secrets_inside_namespaces_and_addresses_are_secrets(penstock: Running) -> None:
    server = {
        "type": "mcp",
        "server_label": "files",
        "server_url": f"https://user:{SECRET_KEY}@127.0.0.1/mcp?key={SECRET_KEY}",
        "authorization": SECRET_KEY,
    }
    inside = {"type": "namespace", "name": "files", "tools": [server]}
    first = penstock.stream("demo", tools=[server, inside], api_key=SECRET_KEY)
    kept = get(penstock, first.last["id"])
    for reply in (first, kept):
        assert SECRET_KEY.encode() not in reply.body
    assert first.last["tools"][0]["server_url"] == "https://127.0.0.1/mcp"
