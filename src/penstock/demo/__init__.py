"""The demo model: built in, offline and deterministic.

It is an upstream like any other: requests are rendered in its own dialect and answers are read by its own
reader. `wishes` finds what the prompt asks for, and `script` plans the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.demo.reader import DemoReader, read_body
from penstock.demo.render import render
from penstock.dialects.plan import ConnectionSpec, Dialect, Plan, Reader, UpstreamRequest
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class Demo:
    """The demo model's private API format."""

    name = "demo"
    connection = ConnectionSpec()  # unused: the model runs in this process

    def reader(self, plan: Plan) -> Reader:
        return DemoReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT: Dialect = Demo()
