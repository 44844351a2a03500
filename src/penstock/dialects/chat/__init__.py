"""Chat Completions, the API that most upstreams support, each in its own way."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.chat.reader import ChatReader, read_body
from penstock.dialects.chat.render import render
from penstock.dialects.plan import ConnectionSpec, Dialect, Plan, Reader, UpstreamRequest
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class Chat:
    name = "chat"
    connection = ConnectionSpec(endpoint=r"/chat/completions$")

    def reader(self, plan: Plan) -> Reader:
        return ChatReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT: Dialect = Chat()
