"""The facade: messages in, parts out, and what was used on record (seed 004)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.errors import OpenResponsesError
from penstock.models.info import ModelInfo, Prices
from penstock.parts.adapter import Log, OpenResponsesStreamAdapter
from penstock.parts.markers import USAGE, marker_part
from penstock.parts.messages import TranslatedMessages, system_prompt_of, translate_messages
from penstock.parts.parts import ChatMessage, DataPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.parts.result import StreamResult
from penstock.parts.speech import Thinking
from penstock.parts.toolset import translate_tool_mode, translate_tools
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import CreateResponse
from penstock.protocol.usage import Usage
from penstock.provider.options import ResponseOptions, with_options
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

if TYPE_CHECKING:
    from penstock.client.client import OpenResponsesClient
    from penstock.client.events import EventStream
    from penstock.models.directory import ModelDirectory

Progress = Callable[[Part], Awaitable[None] | None]
"""Takes the parts, one at a time and in order. A slow one sets the pace: nothing is read meanwhile."""

T = TypeVar("T")

LOST = "previous_response_not_found"
"""The code of an endpoint that has not the response a follow-up names (decisions 9)."""


class Host(Struct, frozen=True, kw_only=True):
    """What the editor at the other end can do, and wants."""

    thinking: Thinking = "part"
    annotations: bool = False
    errors_as_text: bool = False
    system_role: str = "system"
    endpoint: str = ""
    """What a marker names the endpoint by: its base URL."""
    markers: bool = False
    """Report a marker behind each stored response, and use those that come back (decisions 28)."""
    usage_parts: bool = False
    """Report usage as a data part, which fills VS Code's context ring (notes/vscode 3)."""


class LanguageModelProvider:
    """Provides the models of one endpoint. Belongs to the event loop of its client."""

    def __init__(
        self,
        client: OpenResponsesClient,
        directory: ModelDirectory,
        *,
        host: Host | None = None,
        counter: TokenCounter | None = None,
        tracker: UsageTracker | None = None,
        log: Log | None = None,
    ) -> None:
        self._client = client
        self._directory = directory
        self._host = host or Host()
        self._log = log
        self._agents = count(1)
        self._prices: dict[str, Prices | None] = {}
        self.counter = counter or TokenCounter()
        self.tracker = tracker or UsageTracker(self._prices.get)

    async def provide_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        return await self._directory.list(refresh)

    def provide_token_count(self, model: str, counted: str | ChatMessage) -> int:
        """Local, and never fails: an editor asks for every piece of a prompt (notes/asks D3)."""
        if isinstance(counted, str):
            return self.counter.count_text(model, counted)
        return self.counter.count_message(model, counted)

    async def provide_response(
        self,
        model: str,
        messages: Sequence[ChatMessage],
        options: ResponseOptions = ResponseOptions(),  # noqa: B008 - frozen
        progress: Progress = lambda part: None,  # noqa: ARG005
        cancel: asyncio.Event | None = None,
    ) -> StreamResult:
        """One response, reported part by part. A failure is raised; what was reported before it stays good.

        After `cancel` is set nothing is reported, the connection is closed and the result says `cancelled`:
        that is no failure (seed 003, 5.2).
        """
        cancel = cancel or asyncio.Event()
        info = await _unless(cancel, self._directory.get(model))
        if info is None:
            return StreamResult(finish="cancelled")
        self._prices[model] = info.prices
        prompt = system_prompt_of(None, options.model_options)
        estimate = self.counter.count_conversation(model, messages, options.tools, prompt)
        agent = f"request-{next(self._agents)}"
        self.tracker.start_request(agent, estimate.tokens, info.max_input, model)
        turn = _Turn(self._host, model, options, progress, cancel, self._log)
        usage: Usage | None = None
        try:
            result = await self._respond(turn, info, messages, options)
            usage = result.usage
            result.raise_for_error()
        except OpenResponsesError as error:
            self.tracker.fail_request(agent, error, usage, estimated_output=self._spoken(model, turn))
            raise
        except BaseException:
            self.tracker.cancel_request(agent, usage, estimated_output=self._spoken(model, turn))
            raise
        if usage is not None:
            self.counter.learn(model, estimate, usage.input_tokens)
        end = self.tracker.cancel_request if result.finish == "cancelled" else self.tracker.complete_request
        end(agent, usage, estimated_output=0 if usage is not None else self._spoken(model, turn))
        return result

    def _spoken(self, model: str, turn: _Turn) -> int:
        return self.counter.count_text(model, "".join(turn.spoken))

    async def _respond(
        self, turn: _Turn, info: ModelInfo, messages: Sequence[ChatMessage], options: ResponseOptions
    ) -> StreamResult:
        translated = self._translate(info.id, messages, options, follow_marker=True)
        try:
            return await self._attempt(turn, info, translated, options)
        except OpenResponsesError as error:
            if error.code != LOST or translated.previous_response_id is None:
                raise
        # Once, with everything: the endpoint has lost what the marker names (decisions 28).
        translated = self._translate(info.id, messages, options, follow_marker=False)
        return await self._attempt(turn, info, translated, options)

    async def _attempt(
        self, turn: _Turn, info: ModelInfo, translated: TranslatedMessages, options: ResponseOptions
    ) -> StreamResult:
        request, unknown = self._request(info, translated, options)
        told = [
            Diagnostic(code="option_left_out", message=f"the option {name!r} is not known; it was not sent")
            for name in unknown
        ]
        result = await turn.run(self._client.stream(request))
        return replace(result, diagnostics=[*translated.diagnostics, *told, *result.diagnostics])

    def _translate(
        self, model: str, messages: Sequence[ChatMessage], options: ResponseOptions, *, follow_marker: bool
    ) -> TranslatedMessages:
        return translate_messages(
            messages,
            model_options=options.model_options,
            model=model,
            endpoint=self._host.endpoint,
            follow_marker=follow_marker and self._host.markers,
            system_role=self._host.system_role,
        )

    def _request(
        self, info: ModelInfo, translated: TranslatedMessages, options: ResponseOptions
    ) -> tuple[CreateResponse, list[str]]:
        tools = translate_tools(options.tools)
        request = CreateResponse(
            model=info.id,
            input=translated.input,
            previous_response_id=translated.previous_response_id or UNSET,
            tools=[*tools] if tools else UNSET,
            tool_choice=translate_tool_mode(options.tool_mode, options.tools),
            # Without it OpenAI keeps the reasoning to itself, and a tool loop forgets what was thought (N3).
            include=["reasoning.encrypted_content"] if info.reasoning else UNSET,
        )
        return with_options(request, options.model_options)


class _Turn:
    """One response on its way to the editor."""

    def __init__(
        self,
        host: Host,
        model: str,
        options: ResponseOptions,
        progress: Progress,
        cancel: asyncio.Event,
        log: Log | None,
    ) -> None:
        self._host = host
        self._model = model
        self._tools = [tool.name for tool in options.tools]
        self._progress = progress
        self._cancel = cancel
        self._log = log
        self.spoken: list[str] = []
        """What the model said, for where nobody counts it."""

    async def run(self, events: EventStream) -> StreamResult:
        adapter = OpenResponsesStreamAdapter(
            thinking=self._host.thinking,
            annotations=self._host.annotations,
            errors_as_text=self._host.errors_as_text,
            model=self._model,
            tools=self._tools,
            log=self._log,
        )
        async with events, _ended_by(self._cancel, events):
            async for event in events:
                await self._report(adapter.feed(event))
        if self._cancel.is_set() and not adapter.result.status:
            return replace(adapter.result, finish="cancelled", error=None)
        await self._report(adapter.end())
        await self._report(self._state(adapter.result))
        return adapter.result

    async def _report(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if self._cancel.is_set():
                return
            self.spoken += _words(part)
            reported = self._progress(part)
            if inspect.isawaitable(reported):
                await reported

    def _state(self, result: StreamResult) -> list[Part]:
        """What the editor keeps for us, and what it shows of its own: data that is no content."""
        parts: list[Part] = []
        if self._host.usage_parts and result.usage is not None:
            parts.append(usage_part(result.usage))
        if self._host.markers and self._host.endpoint and result.response_id and result.error is None:
            parts.append(marker_part(self._model, self._host.endpoint, result.response_id))
        return parts


@asynccontextmanager
async def _ended_by(cancel: asyncio.Event, events: EventStream) -> AsyncIterator[None]:
    """While this lasts, setting `cancel` closes the connection at once, whoever waits for it."""

    async def watch() -> None:
        await cancel.wait()
        await events.aclose()

    watching = asyncio.create_task(watch(), name="penstock cancel")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _unless(cancel: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives; None when `cancel` was set first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(cancel.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() and not cancel.is_set() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def usage_part(usage: Usage) -> DataPart:
    """Usage as VS Code's chat reads it: the first three must be numbers (notes/vscode 3)."""
    told = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens or usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
    }
    return DataPart.json(told, USAGE)


def _words(part: Part) -> list[str]:
    """The text of a part, as far as it was generated."""
    if isinstance(part, TextPart):
        return [part.value]
    if isinstance(part, ThinkingPart):
        return [part.value] if isinstance(part.value, str) else [*part.value]
    if isinstance(part, ToolCallPart):
        return [part.name, msgspec.json.encode(part.input).decode()]
    return []
