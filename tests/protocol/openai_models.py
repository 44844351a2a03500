"""The event models of `openai`, the Python SDK."""

from __future__ import annotations

from functools import cache
from typing import get_args

from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel


@cache
def models() -> dict[str, type[BaseModel]]:
    """Return the model of each event, by event type."""
    union, *_ = get_args(ResponseStreamEvent)
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}
