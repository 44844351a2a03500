"""Answer one request with a provider, for the stdio host and for the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from penstock.parts.parts import Part
from penstock.parts.tracing import Trace
from penstock.parts.wire import JSON, part_to_line, result_to_json
from penstock.provider.host.error_messages import brief
from penstock.provider.host.figures import model_to_json
from penstock.provider.host.requests import (
    CountTokensRequest,
    ForgetLimitsRequest,
    ModelsRequest,
    RespondRequest,
    UsageRequest,
)
from penstock.provider.provider import LanguageModelProvider

Send = Callable[[JSON], Awaitable[None]]
"""Sends the lines of a request, in order. It waits while nobody reads, which slows the upstream."""

Figures = Callable[[], JSON]


async def answer(
    provider: LanguageModelProvider,
    request: ModelsRequest | RespondRequest | CountTokensRequest | UsageRequest | ForgetLimitsRequest,
    send: Send,
    cancel: asyncio.Event,
    figures: Figures,
    trace: Trace | None = None,
) -> JSON:
    """Send the lines of the answer, and return the fields of the `done` line.

    Raises what the provider raises.
    """
    if isinstance(request, RespondRequest):
        return await _respond(provider, request, send, cancel, figures, trace)
    if isinstance(request, ModelsRequest):
        found = await provider.provide_models(refresh=request.refresh)
        return {"models": [model_to_json(info) for info in found]}
    if isinstance(request, CountTokensRequest):
        return {"tokens": provider.provide_token_count(request.model, request.counted)}
    if isinstance(request, ForgetLimitsRequest):
        return {"forgotten": [*provider.forget_limits(request.models)]}
    return {"usage": figures()}


async def _respond(
    provider: LanguageModelProvider,
    request: RespondRequest,
    send: Send,
    cancel: asyncio.Event,
    figures: Figures,
    trace: Trace | None,
) -> JSON:
    async def progress(part: Part) -> None:
        await send(part_to_line(part))

    result = await provider.provide_response(
        request.model,
        request.messages,
        request.options,
        progress,
        cancel,
        settings=request.settings,
        trace=trace,
    )
    # The reason is the endpoint's, and diagnostics quote names of tools and events: both may be any text.
    diagnostics = [replace(each, message=brief(each.message)) for each in result.diagnostics]
    ended = result_to_json(replace(result, finish=brief(result.finish), diagnostics=diagnostics))
    del ended["type"]  # the `done` line has its own type
    return {"result": ended, "usage": figures()}
