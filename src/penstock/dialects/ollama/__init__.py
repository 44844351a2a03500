"""Ollama's own API. Read-only: requests use its Chat Completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.ollama.reader import OllamaReader
from penstock.dialects.plan import Plan, Reader
from penstock.failures import Failure, classify
from penstock.sse import Frame
from penstock.stream.deltas import Delta


class Ollama:
    name = "ollama"

    def reader(self, plan: Plan) -> Reader:  # noqa: ARG002 (the plan does not matter)
        return OllamaReader()

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:  # noqa: ARG002
        """Read an answer that is not streamed, as a stream of one line."""
        reader = OllamaReader()
        text = body.decode(errors="replace").strip()
        return (reader.feed(Frame(None, text)) if text else []) + reader.end()

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


DIALECT = Ollama()
