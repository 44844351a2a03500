"""Try models with one short request each, through a gateway with the new settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.application import private_gateway
from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import PenstockError
from penstock.gateway.settings import Settings
from penstock.protocol.events import LifecycleEvent, OutputTextDeltaEvent
from penstock.protocol.request import CreateResponse

LIMIT = 120.0
"""Seconds for an answer: a server on this machine may load the model first."""
_PROMPT = "Reply with the one word hello."
_MOST_TOKENS = 256
"""Enough for a model that reasons first, and cheap."""


class Trial(Struct, frozen=True, kw_only=True):
    """What came back."""

    model: str
    text: str = ""
    problem: str = ""
    """Why it failed; empty if it answered."""


async def try_models(settings: Settings, models: Sequence[str], *, limit: float = LIMIT) -> list[Trial]:
    """Send a streamed request to each model, all at the same time."""
    settings = replace(settings, limits=replace(settings.limits, retries=0))
    async with private_gateway(settings) as private:
        config = ClientConfig(f"{private.url}/v1", retries=0, resumes=0)
        async with OpenResponsesClient(config) as client:
            return await asyncio.gather(*(_try(client, model, limit) for model in models))


async def _try(client: OpenResponsesClient, model: str, limit: float) -> Trial:
    request = CreateResponse(model=model, input=_PROMPT, max_output_tokens=_MOST_TOKENS, store=False)
    text, problem = "", "the stream ended without an answer"
    try:
        async with asyncio.timeout(limit), client.stream(request) as events:
            async for event in events:
                if isinstance(event, OutputTextDeltaEvent):
                    text += event.delta
                elif isinstance(event, LifecycleEvent):
                    error = event.response.error
                    problem = error.message if error else ""
    except TimeoutError:
        problem = f"no answer within {limit:g} seconds"
    except PenstockError as error:
        problem = str(error)
    return Trial(model=model, text=text, problem=problem)
