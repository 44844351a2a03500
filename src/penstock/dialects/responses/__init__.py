"""Another Responses endpoint as an upstream. Its stream is read and regenerated, never relayed unchanged."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.plan import ConnectionSpec, Plan, Reader, UpstreamRequest
from penstock.dialects.responses.reader import ResponsesReader, read_body
from penstock.dialects.responses.render import render
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class Responses:
    name = "responses"
    connection = ConnectionSpec(endpoint=r"/responses$")

    def reader(self, plan: Plan) -> Reader:
        return ResponsesReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT = Responses()
