"""The probabilities of tokens, in the shape of OpenAI's."""

from __future__ import annotations

from typing import Any

from penstock.dialects.gemini.fields import field
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import LogProb, TopLogProb


def logprobs_of(candidate: dict[str, Any]) -> list[LogProb]:
    """The chosen tokens of a frame, each with the alternatives at its place."""
    result = object_of(field(candidate, "logprobsResult"))
    chosen = objects_of(field(result, "chosenCandidates"))
    places = objects_of(field(result, "topCandidates"))
    places += [{}] * (len(chosen) - len(places))
    return [
        {**_token(token), "top_logprobs": [_token(each) for each in objects_of(place.get("candidates"))]}
        for token, place in zip(chosen, places, strict=False)
    ]


def _token(told: dict[str, Any]) -> TopLogProb:
    """A probability that is missing is 0, as always in protobuf's JSON."""
    token, logprob = text_of(told.get("token")), field(told, "logProbability")
    is_number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
    return {"token": token, "logprob": float(logprob) if is_number else 0.0, "bytes": list(token.encode())}
