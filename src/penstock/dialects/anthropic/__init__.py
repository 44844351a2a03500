"""Anthropic's Messages API, as served by Anthropic, Bedrock, Vertex and other vendors that support it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.dialects.anthropic.reader import AnthropicReader
from penstock.dialects.anthropic.render import HEADERS, render
from penstock.dialects.frames import error_delta, read_object
from penstock.dialects.plan import ConnectionSpec, Dialect, Plan, Reader, UpstreamRequest
from penstock.failures import Failure, classify
from penstock.sse import Frame
from penstock.stream.deltas import Delta, ErrorDelta


class Anthropic:
    name = "anthropic"
    connection = ConnectionSpec(
        endpoint=r"/messages$",
        is_versioned_everywhere=True,
        key_header="x-api-key",
        headers=HEADERS,
    )

    def reader(self, plan: Plan) -> Reader:
        return AnthropicReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        """Read a message that is not streamed: a `message_start` that contains all of it (quirk A4)."""
        value = read_object(Frame(None, body.decode(errors="replace")))
        if isinstance(value, ErrorDelta):
            return [value]
        if not isinstance(value.get("content"), list):
            return [error_delta(value)]
        reader = AnthropicReader(plan)
        start = msgspec.json.encode({"type": "message_start", "message": value}).decode()
        frames = [Frame(None, start), Frame(None, '{"type":"message_stop"}')]
        return [*(delta for frame in frames for delta in reader.feed(frame)), *reader.end()]

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT: Dialect = Anthropic()
