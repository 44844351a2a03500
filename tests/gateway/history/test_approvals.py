"""A scripted conversation with an approval: the client sees our ids, and the upstream its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.gateway.gateway import Gateway
from tests.dialects.responses.stream_events import added, completed, created, done, message
from tests.gateway.fake_upstreams import FakeUpstream
from tests.gateway.in_process import Json, call, with_gateway
from tests.gateway.upstream import frames

TOOLS = [
    {
        "type": "mcp",
        "server_label": "zip",
        "server_url": "https://mcp.example.com",
        "require_approval": "always",
    }
]
LIST = {"type": "mcp_list_tools", "id": "mcpl_theirs", "server_label": "zip", "tools": []}
REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_theirs",
    "server_label": "zip",
    "name": "shorten",
    "arguments": "{}",
}
CALL = {
    "type": "mcp_call",
    "id": "mcp_theirs",
    "server_label": "zip",
    "name": "shorten",
    "arguments": "{}",
    "status": "completed",
    "output": "https://z",
    "approval_request_id": "mcpr_theirs",
}


def stream_of(*items: Json) -> list[bytes]:
    events = [each for at, item in enumerate(items) for each in (added(at, item), done(at, item))]
    return [frames(created(), *events, completed(*items), done=False)]


def by_chain(first: Json, answer: Json) -> Json:
    return {"previous_response_id": first["id"], "input": [answer]}


def by_history(first: Json, answer: Json) -> Json:
    return {"input": [{"role": "user", "content": "Shorten it."}, *first["output"], answer]}


def by_reference(first: Json, answer: Json) -> Json:
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    return {"input": [{"role": "user", "content": "Shorten it."}, *references, answer]}


@pytest.mark.parametrize("accent", ["openresponses", "openai"])
@pytest.mark.parametrize("follow_up", [by_chain, by_history, by_reference])
def test_an_approval_reaches_the_upstream_with_its_own_ids(
    follow_up: Callable[[Json, Json], Json], accent: str
) -> None:
    upstream = FakeUpstream(
        "openai", stream_of(LIST, REQUEST), stream_of(CALL, message("Done.")), dialect="responses"
    )

    async def test(gateway: Gateway) -> None:
        path = f"/v1/responses?accent={accent}"
        asked = await call(gateway, path, model="m", input="Shorten it.", tools=TOOLS)
        first: dict[str, Any] = asked.json
        request = first["output"][1]
        assert request["type"].removeprefix("openai:") == "mcp_approval_request"
        assert request["id"] != "mcpr_theirs"
        answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        approved = await call(gateway, path, model="m", tools=TOOLS, **follow_up(first, answer))
        sent = upstream.requests[1].body["input"]
        assert sent[1:] == [LIST, REQUEST, {**answer, "approval_request_id": "mcpr_theirs"}]
        made, said = approved.json["output"]
        assert made["approval_request_id"] == request["id"]
        assert said["content"][0]["text"] == "Done."
        assert {each["code"] for each in approved.json["diagnostics"]} == {"usage_estimated"}

    with_gateway(test, upstream)
