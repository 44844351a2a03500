"""Stored responses: retrieving them from a gateway, and reading what was sent to its upstream."""

from __future__ import annotations

from typing import Any

from tests.client.server import Script
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.probes import wait_for
from tests.gateway.running import Json, Live, Reply, Running
from tests.gateway.upstream import ScriptedUpstream, streamed

TEXT_DELTA = b"response.output_text.delta"


LOOK = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


def get(running: Running, path: str, **options: Any) -> Reply:
    return running.ask(path=f"/v1/responses/{path}", method="GET", **options)


def id_in(live: Live) -> str:
    """The id of a response, as soon as its stream has begun."""
    live.until(b"response.in_progress")
    return live.body.partition(b'"id":"')[2].partition(b'"')[0].decode()


def events_only(body: bytes) -> bytes:
    """Drop heartbeat comments, which are not part of the log."""
    return b"".join(part + b"\n\n" for part in body.split(b"\n\n") if part and not part.startswith(b":"))


def sent_to(upstream: ScriptedUpstream, model: str, number: int) -> list[tuple[str, Any]]:
    messages = upstream.asked_for(model)[number].json["messages"]
    return [(each["role"], each.get("content")) for each in messages]


def calling(id: str) -> Script:
    call = {"index": 0, "id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return streamed(chat_chunk({"tool_calls": [call]}), chat_chunk(finish="tool_calls"))


def begin(running: Running, model: str, **fields: Any) -> Json:
    """Start a background turn, and return its queued response."""
    reply = running.whole(model, background=True, **fields)
    assert reply.status == 200
    assert (reply.last["status"], reply.last["background"], reply.last["output"]) == ("queued", True, [])
    return reply.last


def ended(running: Running, id: str, **options: Any) -> Json:
    """Poll a response until it has ended."""
    seen: list[Json] = []

    def has_ended() -> bool:
        seen.append(get(running, id, **options).json)
        return seen[-1]["status"] not in ("queued", "in_progress")

    wait_for(has_ended)
    return seen[-1]
