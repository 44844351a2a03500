"""The outlet that sends one JSON response."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock.gateway.turn.outlets import LARGE_ANSWER
from penstock.protocol.events import Event
from penstock.protocol.large_json import LONG_TEXT
from tests.gateway.turn.outlet_stage import Stage, write_and_flush

LONG = "x" * (LONG_TEXT + 1)


def answer_of(stage: Stage, *batches: list[Event]) -> Any:
    async def main() -> None:
        outlet = stage.whole()
        for events in batches:
            await write_and_flush(outlet, events)

    asyncio.run(main())
    return json.loads(stage.channel.body)


def test_an_answer_is_sent_at_the_end_only() -> None:
    stage = Stage()
    body = answer_of(stage, stage.events(), stage.end())
    assert len(stage.channel.pieces) == 1
    assert (stage.channel.status, body["status"]) == (200, "completed")
    assert stage.verdict.terminal_sent


def test_a_failed_answer_has_a_status_and_what_had_come() -> None:
    """The part of the answer that arrived is not lost: it is in the body."""
    stage = Stage()
    stage.verdict.retry_after = 9.0
    body = answer_of(stage, stage.events("half"), stage.failure())
    assert (stage.channel.status, body["error"]["code"]) == (500, "server_error")
    assert body["response"]["output"][0]["content"][0]["text"] == "half"
    assert stage.channel.sent_headers["retry-after"] == "9"


def test_a_large_answer_has_its_length_and_comes_in_pieces() -> None:
    stage = Stage()
    stage.verdict.bytes_in = LARGE_ANSWER + 1
    body = answer_of(stage, stage.events("y" * 500_000), stage.end())
    assert len(body["output"][0]["content"][0]["text"]) == 500_000
    assert int(stage.channel.sent_headers["content-length"]) == len(stage.channel.body)
    assert len(stage.channel.pieces) > 2
    assert stage.verdict.bytes_out == len(stage.channel.body)
