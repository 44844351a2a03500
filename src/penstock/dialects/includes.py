"""The values of `include`: which of them an upstream honours, and which are honoured in any case."""

from __future__ import annotations

from collections.abc import Collection

from penstock.protocol.request import CreateResponse

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

ALWAYS = frozenset(
    {ENCRYPTED_REASONING, "message.input_image.image_url", "computer_call_output.output.image_url"}
)
"""Values that need no upstream: reasoning that must be sent back is always sealed, and stored input always has
its images."""

SPECIFIED = frozenset({ENCRYPTED_REASONING, LOGPROBS})
"""The values in the specification."""


def unsupported_includes(request: CreateResponse, supported: Collection[str] = ()) -> list[str]:
    """Return the values that neither this upstream nor the gateway honours, as names for a diagnostic."""
    honoured = ALWAYS | frozenset(supported)
    return [f"include: {name}" for name in request.include or () if name not in honoured]
