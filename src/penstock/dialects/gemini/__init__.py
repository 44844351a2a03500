"""Gemini's `generateContent`, as served by the Gemini API and Vertex."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.dialects.gemini.reader import GeminiReader
from penstock.dialects.gemini.render import render
from penstock.dialects.plan import ConnectionSpec, Plan, Reader, UpstreamRequest
from penstock.failures import Failure, classify
from penstock.sse import Frame
from penstock.stream.deltas import Delta


class Gemini:
    name = "gemini"
    connection = ConnectionSpec(
        endpoint=r"/(models|tunedModels)/[^/]+:\w+$",
        version="/v1beta",
        is_versioned_everywhere=True,
        key_header="x-goog-api-key",
    )

    def reader(self, plan: Plan) -> Reader:
        return GeminiReader(plan)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        """Read one answer, or an array of them, which is what a stream without `alt=sse` returns."""
        reader = GeminiReader(plan)
        deltas = [delta for frame in _frames(body) for delta in reader.feed(frame)]
        return deltas + reader.end()

    def render(self, plan: Plan) -> UpstreamRequest:
        return render(plan)

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return classify(status, headers, body)


def _frames(body: bytes) -> list[Frame]:
    text = body.decode(errors="replace").strip()
    if text.startswith("["):
        try:
            return [
                Frame(None, bytes(each).decode())
                for each in msgspec.json.decode(text, type=list[msgspec.Raw])
            ]
        except msgspec.DecodeError:
            pass  # the reader reports the error
    return [Frame(None, text)] if text else []


DIALECT = Gemini()
