"""Translate a captured stream of another API format into OpenResponses events."""

from __future__ import annotations

from collections.abc import Callable

from penstock.captures.reader import Capture
from penstock.dialects.model_families import family_of
from penstock.dialects.pipeline import FrameDecoder, Pipeline
from penstock.dialects.plan import Quirks, Target
from penstock.dialects.recognition import FORMATS
from penstock.dialects.registry import dialect
from penstock.dialects.toolset import plan_for
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.stream.machine import ResponseStreamStateMachine


def translation(
    name: str,
    request: CreateResponse,
    *,
    id: str,
    clock: Callable[[], float],
    accent: str = "openresponses",
    quirks: Quirks | None = None,
    advise: Callable[[str], str] = str,
    decoder: FrameDecoder | None = None,
) -> Pipeline:
    """Return a pipeline that reads a stream in the dialect of this name: feed it the bytes, then end it.

    `request` has the declared tools, and may be empty. `advise` returns what to do with a stream in another
    format, `decoder` reads frames; by default, those of any transport.
    """
    model = request.model or ""
    target = Target(model=model, dialect=name, family=family_of(model), quirks=quirks or Quirks())
    plan = plan_for(request, target, accent=accent)
    response = response_for(request, id=id, created_at=int(clock()), model=model or "unknown")
    pipeline = Pipeline(ResponseStreamStateMachine(response, clock=clock, tools=plan.tools))
    pipeline.open(dialect(name), plan, decoder=decoder or Capture(arrays=True), advise=advise)
    return pipeline


def dialect_of(format: str) -> str:
    """Return the dialect that reads an API format; empty if none does."""
    return FORMATS[format].dialect if format in FORMATS else ""
