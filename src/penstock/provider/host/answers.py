"""One request, answered with a provider. The same for a pipe and for a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.parts.parts import Part
from penstock.parts.wire import JSON, part_to_line, result_to_json
from penstock.provider.host.figures import model_to_json
from penstock.provider.host.requests import CountTokens, Models, Respond, Usage
from penstock.provider.provider import LanguageModelProvider

Tell = Callable[[JSON], Awaitable[None]]
"""Takes the lines of a request, in order. It waits while nobody reads: that sets the pace of the upstream."""

Figures = Callable[[], JSON]


async def answer(
    provider: LanguageModelProvider,
    request: Models | Respond | CountTokens | Usage,
    tell: Tell,
    cancel: asyncio.Event,
    figures: Figures,
) -> JSON:
    """What the `done` line says; the lines before it are told. Raises what the provider raises."""
    if isinstance(request, Respond):
        return await _respond(provider, request, tell, cancel, figures)
    if isinstance(request, Models):
        found = await provider.provide_models(refresh=request.refresh)
        return {"models": [model_to_json(info) for info in found]}
    if isinstance(request, CountTokens):
        return {"tokens": provider.provide_token_count(request.model, request.counted)}
    return {"usage": figures()}


async def _respond(
    provider: LanguageModelProvider, request: Respond, tell: Tell, cancel: asyncio.Event, figures: Figures
) -> JSON:
    async def progress(part: Part) -> None:
        await tell(part_to_line(part))

    result = await provider.provide_response(
        request.model, request.messages, request.options, progress, cancel, thinking=request.thinking
    )
    told = result_to_json(result)
    del told["type"]  # the line has one already
    return {"result": told, "usage": figures()}
