"""One response on its way to the editor."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import OpenResponsesError
from penstock.parts.adapter import Log, OpenResponsesStreamAdapter
from penstock.parts.item_parts import Thinking
from penstock.parts.markers import USAGE, history_of, marker_part
from penstock.parts.parts import ChatMessage, DataPart, Part, Role, TextPart, ThinkingPart, ToolCallPart
from penstock.parts.result import StreamResult
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Usage
from penstock.provider.options import ResponseOptions

if TYPE_CHECKING:
    from penstock.client.event_stream import EventStream

Progress = Callable[[Part], Awaitable[None] | None]
"""Takes the parts, one at a time and in order. A slow one sets the pace: nothing is read meanwhile."""


class Host(Struct, frozen=True, kw_only=True):
    """What the editor at the other end can do, and wants."""

    thinking: Thinking = "part"
    annotations: bool = False
    errors_as_text: bool = False
    system_role: str = "system"
    endpoint: str = ""
    """What a marker names the endpoint by: its base URL."""
    markers: bool = False
    """Report a marker behind each stored response, and use those that come back (decision 28)."""
    usage_parts: bool = False
    """Report usage as a data part, which fills VS Code's context ring (editor 7)."""


class EditorTurn:
    """One response on its way to the editor."""

    def __init__(
        self,
        host: Host,
        model: str,
        options: ResponseOptions,
        progress: Progress,
        cancel: asyncio.Event,
        instructions: str,
        messages: Sequence[ChatMessage],
        log: Log | None,
    ) -> None:
        self._host = host
        self._model = model
        self._tools = [tool.name for tool in options.tools]
        self._progress = progress
        self._cancel = cancel
        self._instructions = instructions
        self._messages = messages
        self._log = log
        self._adapter = self._reader()
        self._diagnostics: list[Diagnostic] = []
        self._said: list[Part] = []
        self.spoken: list[str] = []
        """What the model said, for where nobody counts it."""

    @property
    def result(self) -> StreamResult:
        """What is known by now. After a cancel there is no failure, and what came is valid."""
        result = self._adapter.result
        result = replace(result, diagnostics=[*self._diagnostics, *result.diagnostics])
        was_stopped = self._cancel.is_set() and (not result.status or result.error is not None)
        return replace(result, finish="cancelled", error=None) if was_stopped else result

    async def run(self, events: EventStream, diagnostics: list[Diagnostic]) -> None:
        self._adapter, self._diagnostics = self._reader(), diagnostics
        async with events, _ended_by(self._cancel, events):
            async for event in events:
                await self._report(self._adapter.feed(event))
        if not self._cancel.is_set():
            await self._report(self._adapter.end())
        await self._report(self._state())

    async def tell(self, error: OpenResponsesError) -> None:
        """The response failed on its way, which the stream could not say itself."""
        await self._report(self._adapter.end(error))

    def _reader(self) -> OpenResponsesStreamAdapter:
        return OpenResponsesStreamAdapter(
            thinking=self._host.thinking,
            annotations=self._host.annotations,
            errors_as_text=self._host.errors_as_text,
            model=self._model,
            tools=self._tools,
            log=self._log,
        )

    async def _report(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if self._cancel.is_set():
                return
            self.spoken += _words(part)
            self._said.append(part)
            reported = self._progress(part)
            if inspect.isawaitable(reported):
                await reported

    def _state(self) -> list[Part]:
        """What the editor keeps for us, and what it shows of its own: data that is no content."""
        parts: list[Part] = []
        result, host = self._adapter.result, self._host
        if host.usage_parts and result.usage is not None:
            parts.append(usage_part(result.usage))
        if host.markers and host.endpoint and result.response_id and _can_follow(result):
            # What comes back with the marker is the conversation and what was said to it.
            history = history_of([*self._messages, ChatMessage(Role.ASSISTANT, self._said)])
            named = (self._model, host.endpoint, result.response_id)
            parts.append(marker_part(*named, self._instructions, history))
        return parts


def _can_follow(result: StreamResult) -> bool:
    """Can a follow-up name this response? Not if it holds a call that the editor never got to answer."""
    is_whole = result.status == "completed" and result.error is None and result.stored
    return is_whole and all(each.code != "malformed_tool_call" for each in result.diagnostics)


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


def usage_part(usage: Usage) -> DataPart:
    """Usage as VS Code's chat reads it: the first three must be numbers (editor 7)."""
    fields = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens or usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
    }
    return DataPart.json(fields, USAGE)


def _words(part: Part) -> list[str]:
    """The text of a part, as far as it was generated."""
    if isinstance(part, TextPart):
        return [part.value]
    if isinstance(part, ThinkingPart):
        return [part.value] if isinstance(part.value, str) else [*part.value]
    if isinstance(part, ToolCallPart):
        return [part.name, msgspec.json.encode(part.input).decode()]
    return []
