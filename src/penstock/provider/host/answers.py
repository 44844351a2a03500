"""One request, answered with a provider. The same for a pipe and for a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.parts.parts import Part
from penstock.parts.wire import JSON, part_to_line, result_to_json
from penstock.provider.host.figures import model_to_json
from penstock.provider.host.requests import CountTokensRequest, ModelsRequest, RespondRequest, UsageRequest
from penstock.provider.provider import LanguageModelProvider

Tell = Callable[[JSON], Awaitable[None]]
"""Takes the lines of a request, in order. It waits while nobody reads: that sets the pace of the upstream."""

Figures = Callable[[], JSON]


async def answer(
    provider: LanguageModelProvider,
    request: ModelsRequest | RespondRequest | CountTokensRequest | UsageRequest,
    tell: Tell,
    cancel: asyncio.Event,
    figures: Figures,
) -> JSON:
    """What the `done` line says; the lines before it are told. Raises what the provider raises."""
    if isinstance(request, RespondRequest):
        return await _respond(provider, request, tell, cancel, figures)
    if isinstance(request, ModelsRequest):
        found = await provider.provide_models(refresh=request.refresh)
        return {"models": [model_to_json(info) for info in found]}
    if isinstance(request, CountTokensRequest):
        return {"tokens": provider.provide_token_count(request.model, request.counted)}
    return {"usage": figures()}


async def _respond(
    provider: LanguageModelProvider,
    request: RespondRequest,
    tell: Tell,
    cancel: asyncio.Event,
    figures: Figures,
) -> JSON:
    async def progress(part: Part) -> None:
        await tell(part_to_line(part))

    result = await provider.provide_response(
        request.model, request.messages, request.options, progress, cancel, thinking=request.thinking
    )
    ended = result_to_json(result)
    del ended["type"]  # the line has one already
    return {"result": ended, "usage": figures()}
