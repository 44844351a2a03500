"""Bedrock's Converse API: Amazon's own format for all the models that it hosts."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.bedrock.body import read_body
from penstock.dialects.bedrock.reader import BedrockReader
from penstock.dialects.plan import Plan, Reader
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class Bedrock:
    name = "bedrock"

    def reader(self, plan: Plan) -> Reader:
        return BedrockReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT = Bedrock()
