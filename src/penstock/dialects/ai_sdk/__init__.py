"""The stream parts of the AI SDK's language models, versions 2 to 4, as an upstream. It can only be read."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.ai_sdk.body import read_body
from penstock.dialects.ai_sdk.reader import AiSdkReader
from penstock.dialects.plan import Plan, Reader
from penstock.failures import Failure, classify
from penstock.stream.deltas import Delta


class AiSdk:
    name = "ai_sdk"

    def reader(self, plan: Plan) -> Reader:
        return AiSdkReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return read_body(plan, body)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT = AiSdk()
