"""The scenarios on which other gateways fail give the expected response here.

Each stream is lawful in every accent, numbered from 0 without a gap, and has one terminal event.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.chat import DIALECT
from penstock.protocol.wire import to_builtins
from tests.dialects.block_stream_checks import as_frame
from tests.dialects.chat.stream_scenarios import SCENARIOS, TOOLS, USAGE_CHUNK
from tests.dialects.chat_streams import DONE, plan
from tests.dialects.recordings import translate


def test_there_are_twenty_scenarios() -> None:
    assert len(SCENARIOS) == 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_gives_the_expected_response(name: str) -> None:
    scenario = SCENARIOS[name]
    frames = [as_frame(each) for each in scenario.chunks]
    if scenario.ends:
        frames += [as_frame(USAGE_CHUNK), DONE]
    events = [to_builtins(event) for event in translate(DIALECT, plan(tools=TOOLS), frames)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response = events[-1]["response"]
    assert response["status"] == scenario.status
    assert [_summary(item) for item in response["output"]] == scenario.output
    reason = (
        (response["error"] or {}).get("code") or (response["incomplete_details"] or {}).get("reason") or ""
    )
    assert reason == scenario.reason
    usage = response["usage"]
    if not scenario.ends:
        assert usage is None
    else:
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (11, 7, 18)
        assert usage["input_tokens_details"]["cached_tokens"] == 5
        assert usage["output_tokens_details"]["reasoning_tokens"] == 3


def test_an_error_keeps_the_vendors_message() -> None:
    scenario = SCENARIOS["error object mid-stream"]
    events = translate(DIALECT, plan(), [as_frame(each) for each in scenario.chunks])
    assert to_builtins(events[-1])["response"]["error"]["message"] == "The engine is on fire"


def _summary(item: dict[str, Any]) -> tuple[str, Any, str]:
    if "name" in item:
        return item["type"], (item["name"], item.get("arguments", item.get("input"))), item["status"]
    return item["type"], "".join(part["text"] for part in item["content"]), item["status"]
