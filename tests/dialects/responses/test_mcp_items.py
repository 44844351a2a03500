"""Items of MCP servers that an endpoint calls itself: approvals name the right request on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.mcp_items import McpHistory, upstream_id
from penstock.protocol.items import UnknownItem
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.render_cases import codes, plan_for, user
from tests.dialects.responses.rendering import OPENAI, OTHER, items, reasoning, rendered, sealed
from tests.dialects.responses.stream_events import added, completed, done

REQUEST: dict[str, Any] = {
    "type": "mcp_approval_request",
    "id": "mcpr_theirs",
    "server_label": "zip",
    "name": "shorten",
    "arguments": '{"url":"https://a"}',
}
LIST = {"type": "mcp_list_tools", "id": "mcpl_theirs", "server_label": "zip", "tools": [{"name": "shorten"}]}
CALL = {
    "type": "mcp_call",
    "id": "mcp_theirs",
    "server_label": "zip",
    "name": "shorten",
    "arguments": "{}",
    "status": "completed",
    "output": "done",
    "error": None,
    "approval_request_id": "mcpr_theirs",
}
ANSWERED = {"type": "mcp_approval_response", "approval_request_id": "mcpr_theirs", "approve": True}


def received(*raw: dict[str, Any]) -> list[dict[str, Any]]:
    events = [event for index, item in enumerate(raw) for event in (added(index, item), done(index, item))]
    output: list[dict[str, Any]] = checks.answer(DIALECT, [*events, completed(*raw)])["output"]
    return output


def test_an_item_comes_back_to_the_endpoint_as_it_was() -> None:
    output = received(LIST, REQUEST, CALL)
    assert [item["id"].partition("_")[0] for item in output] == ["mcpl", "mcpr", "mcp"]
    assert not {"mcpl_theirs", "mcpr_theirs", "mcp_theirs"} & {item["id"] for item in output}
    assert items([user("a"), *output])[1:] == [LIST, REQUEST, CALL]


@pytest.mark.parametrize("prefix", ["", "openai:"])
@pytest.mark.parametrize("approve", [True, False])
def test_an_approval_names_the_request_that_the_endpoint_knows(prefix: str, approve: bool) -> None:
    [request] = received(REQUEST)
    request["type"] = f"{prefix}{request['type']}"
    answer = {"type": f"{prefix}mcp_approval_response", "id": "item_1", "approve": approve, "reason": "why"}
    answer["approval_request_id"] = request["id"]
    assert items([user("a"), request, answer])[1:] == [
        REQUEST,
        {**ANSWERED, "approve": approve, "reason": "why"},
    ]


def test_the_call_that_was_approved_names_the_request_that_the_client_knows() -> None:
    [request] = received(REQUEST)
    answer = {**ANSWERED, "approval_request_id": request["id"]}
    plan = plan_for({"model": "m", "input": [user("a"), request, answer]}, **OPENAI)
    events = checks.as_frames([added(0, CALL), done(0, CALL), completed(CALL)])
    [call] = checks.last(checks.translate(DIALECT, plan, events))["output"]
    assert call["approval_request_id"] == request["id"] != "mcpr_theirs"


def test_an_approval_of_an_unknown_request_is_sent_as_it_is() -> None:
    assert items([user("a"), ANSWERED])[1:] == [ANSWERED]
    assert McpHistory("a text").received(CALL)["approval_request_id"] == "mcpr_theirs"


@pytest.mark.parametrize(
    ("own", "kept", "expected"),
    [
        ("mcpr_ours", "mcpr_theirs", "mcpr_theirs"),
        ("mcpr_ours", None, "mcpr_ours"),
        ("item_4-x", None, "mcpr_item4x"),  # other prefixes are refused for good
        ("item_4", 7, "mcpr_item4"),
        ("", None, "mcpr_0"),
        ("x" * 80, None, "mcpr_" + "x" * 59),
    ],
)
def test_an_id_that_the_client_did_not_keep_is_rewritten(own: str, kept: Any, expected: str) -> None:
    extra = {} if kept is None else {"upstream_id": kept}
    item = UnknownItem(type="mcp_approval_request", id=own, extra=extra)
    assert upstream_id(item) == expected


def test_a_request_and_its_answer_agree_if_the_client_kept_only_our_id() -> None:
    request = {**REQUEST, "id": "item_4", "status": "completed"}
    answer = {**ANSWERED, "approval_request_id": "item_4"}
    first, second = items([user("a"), request, answer])[1:]
    assert first["id"] == second["approval_request_id"] == "mcpr_item4"
    assert "status" not in first


def test_reasoning_before_an_approval_request_is_kept() -> None:  # ask C5
    thought = reasoning(sealed({"encrypted_content": "e"}, OPENAI))
    assert [item["type"] for item in items([user("a"), thought, REQUEST, ANSWERED])] == [
        *("message", "reasoning", "mcp_approval_request", "mcp_approval_response")
    ]


@pytest.mark.parametrize("item", [LIST, REQUEST, CALL, ANSWERED], ids=lambda item: item["type"])
def test_another_endpoint_does_not_get_them(item: dict[str, Any]) -> None:
    request = rendered({"input": [user("a"), item]}, OTHER)
    assert len(request.body["input"]) == 1
    assert codes(request) == {"item_left_out"}
