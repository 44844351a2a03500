"""The demo model's own language, which nobody else speaks."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.demo.reader import DemoReader, read_body
from penstock.demo.render import render
from penstock.dialects.plan import Dialect, Plan, Reader, UpstreamRequest
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class Demo:
    name = "demo"

    def reader(self, plan: Plan) -> Reader:
        return DemoReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT: Dialect = Demo()
