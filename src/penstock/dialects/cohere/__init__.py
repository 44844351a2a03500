"""Cohere's chat API, version 2. Read-only: requests use its Chat Completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.cohere.reader import CohereReader
from penstock.dialects.frames import read_object
from penstock.dialects.plan import Plan, Reader
from penstock.failures import Failure, classify
from penstock.sse import Frame
from penstock.stream.deltas import Delta, ErrorDelta


class Cohere:
    name = "cohere"

    def reader(self, plan: Plan) -> Reader:  # noqa: ARG002 (the plan does not matter)
        return CohereReader()

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:  # noqa: ARG002
        reader = CohereReader()
        text = body.decode(errors="replace").strip()
        if not text:
            return reader.end()
        answer = read_object(Frame(None, text))
        return [answer] if isinstance(answer, ErrorDelta) else reader.read_answer(answer)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT = Cohere()
