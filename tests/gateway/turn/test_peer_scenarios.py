"""Twenty streams on which other gateways fail, through a real gateway.

Every answer is checked by the harness: the strict checker, numbers from 0 without a gap, one terminal event,
[DONE], nothing null, and both published schemas in the strict accent.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.wire import to_builtins
from tests.dialects.chat.stream_scenarios import SCENARIOS, TOOLS, USAGE_CHUNK, Scenario
from tests.gateway.reply_assertions import codes
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, streamed

Json = dict[str, Any]

DECLARED: list[Json] = [to_builtins(tool) for tool in TOOLS]
ACCENTS = ("openresponses", "openai")


def play(upstream: ScriptedUpstream, name: str) -> Scenario:
    scenario = SCENARIOS[name]
    end = [USAGE_CHUNK] if scenario.ends else []
    upstream.play("peers", streamed(*scenario.chunks, *end, done=scenario.ends))
    return scenario


def assert_right(response: Json, scenario: Scenario) -> None:
    """The same as for the dialect alone; usage that is not reported is estimated by the gateway."""
    assert response["status"] == scenario.status
    assert [summary_of(item) for item in response["output"]] == scenario.output
    error, details = response["error"] or {}, response["incomplete_details"] or {}
    assert (error.get("code") or details.get("reason") or "") == scenario.reason
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert ("usage_estimated" in codes(response)) == (not scenario.ends)
    if scenario.ends:
        assert (usage["input_tokens"], usage["output_tokens"]) == (11, 7)
        assert usage["input_tokens_details"]["cached_tokens"] == 5
        assert usage["output_tokens_details"]["reasoning_tokens"] == 3


def summary_of(item: Json) -> tuple[str, Any, str]:
    if "name" in item:
        return item["type"], (item["name"], item.get("arguments", item.get("input"))), item["status"]
    return item["type"], "".join(part["text"] for part in item["content"]), item["status"]


def test_there_are_twenty() -> None:
    assert len(SCENARIOS) == 20


@pytest.mark.parametrize("accent", ACCENTS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_on_which_peers_fail(
    penstock: Running, upstream: ScriptedUpstream, name: str, accent: str
) -> None:
    scenario = play(upstream, name)
    reply = penstock.stream("peers", accent=accent, tools=DECLARED)
    assert reply.status == 200
    assert reply.types[:2] == ["response.created", "response.in_progress"]
    assert reply.types[-1] == f"response.{scenario.status}"
    assert_right(reply.last, scenario)
    done = [event["item"] for event in reply.events if event["type"] == "response.output_item.done"]
    assert sorted(map(str, done)) == sorted(map(str, reply.last["output"]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_for_a_client_that_does_not_stream(
    penstock: Running, upstream: ScriptedUpstream, name: str
) -> None:
    scenario = play(upstream, name)
    reply = penstock.whole("peers", tools=DECLARED)
    if scenario.status != "failed":
        assert reply.status == 200
        assert_right(reply.json, scenario)
    elif scenario.output:
        assert reply.status >= 500
        assert_right(reply.json["response"], scenario)
    assert scenario.status != "failed" or reply.error["code"] == scenario.reason


def test_the_error_has_the_vendors_message(penstock: Running, upstream: ScriptedUpstream) -> None:
    play(upstream, "error object mid-stream")
    assert penstock.stream("peers").last["error"]["message"].startswith("The engine is on fire")


def test_a_late_name_announces_no_placeholder(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Two other gateways announce the call under an invented name."""
    play(upstream, "name after arguments")
    reply = penstock.stream("peers", tools=DECLARED)
    names = [event["item"]["name"] for event in reply.events if "name" in event.get("item", {})]
    assert names == ["read", "read"]


def test_a_custom_tool_is_streamed_as_text(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Not as the JSON that the upstream wraps around it (ask B1)."""
    play(upstream, "custom tool")
    reply = penstock.stream("peers", accent="openai", tools=DECLARED)
    assert "response.function_call_arguments.delta" not in reply.types
    deltas = [e["delta"] for e in reply.events if e["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "*** Begin Patch\n+é"
    assert len(deltas) > 1
