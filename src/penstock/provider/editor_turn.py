"""Stream one response to the editor."""

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
from penstock.parts.citations import Citations
from penstock.parts.fences import closing_fence
from penstock.parts.item_parts import Thinking
from penstock.parts.markers import USAGE, history_of, marker_part
from penstock.parts.messages import SystemRole
from penstock.parts.parts import ChatMessage, DataPart, Part, Role, TextPart, ThinkingPart, ToolCallPart
from penstock.parts.result import StreamResult, error_part
from penstock.parts.tracing import Trace
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Usage
from penstock.provider.options import ResponseOptions

if TYPE_CHECKING:
    from penstock.client.event_stream import EventStream

Progress = Callable[[Part], Awaitable[None] | None]
"""Called with each part, in order. Nothing is read while it runs, so a slow reader slows the upstream."""


class Host(Struct, frozen=True, kw_only=True):
    """What the editor supports and wants."""

    thinking: Thinking = "part"
    citations: Citations = "off"
    errors_as_text: bool = False
    system_role: SystemRole = "system"
    endpoint: str = ""
    """Identifies the endpoint in a marker: its base URL."""
    markers: bool = False
    """Report a marker after each stored response, and use the markers in the messages (decision 28)."""
    usage_parts: bool = False
    """Report usage as a data part, which fills VS Code's context ring (editor 7)."""
    describe_error: Callable[[OpenResponsesError, str], str] = lambda error, _: error.message
    """Returns the text of an error for `errors_as_text`, from the error and the model."""


class HostSettings(Struct, frozen=True, kw_only=True):
    """The settings of an editor's user that override those of the host; None overrides nothing."""

    thinking: Thinking | None = None
    citations: Citations | None = None
    errors_as_text: bool | None = None
    system_role: SystemRole | None = None

    def applied_to(self, host: Host) -> Host:
        chosen = {name: getattr(self, name) for name in self.__struct_fields__}
        return replace(host, **{name: value for name, value in chosen.items() if value is not None})


class EditorTurn:
    """Streams one response to the editor."""

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
        trace: Trace | None,
    ) -> None:
        self.host = host
        self._model = model
        self._tools = [tool.name for tool in options.tools]
        self._progress = progress
        self._cancel = cancel
        self._instructions = instructions
        self._messages = messages
        self._log = log
        self._trace = trace
        self._adapter = self._new_adapter()
        self._diagnostics: list[Diagnostic] = []
        self._reported: list[Part] = []
        self.output_text: list[str] = []
        """The generated text, to estimate its tokens if the endpoint does not count them."""

    @property
    def result(self) -> StreamResult:
        """The result so far. A cancelled response is not a failure, and its parts are valid."""
        result = self._adapter.result
        result = replace(result, diagnostics=[*self._diagnostics, *result.diagnostics])
        was_stopped = self._cancel.is_set() and (not result.status or result.error is not None)
        return replace(result, finish="cancelled", error=None) if was_stopped else result

    async def run(self, events: EventStream, diagnostics: list[Diagnostic]) -> None:
        self._adapter, self._diagnostics = self._new_adapter(), diagnostics
        async with events, _closed_on(self._cancel, events):
            async for event in events:
                await self._report(self._adapter.feed(event))
        if not self._cancel.is_set():
            await self._report(self._adapter.end())
        await self._report_own(self._state())

    async def fail(self, error: OpenResponsesError) -> None:
        """End the response with an error that the stream itself could not report."""
        await self._report(self._adapter.end(error))
        if self.host.errors_as_text:
            # Here and not in the adapter: an attempt may fail and be repeated before the user sees anything.
            message = self.host.describe_error(error, self._model)
            shown = "".join(part.value for part in self._reported if isinstance(part, TextPart))
            fence = closing_fence(shown)  # an answer that was cut off in a code block would contain the error
            await self._report_own([*([TextPart(fence)] if fence else []), error_part(message)])

    def _new_adapter(self) -> OpenResponsesStreamAdapter:
        return OpenResponsesStreamAdapter(
            thinking=self.host.thinking,
            citations=self.host.citations,
            model=self._model,
            tools=self._tools,
            log=self._log,
            trace=self._trace,
        )

    async def _report_own(self, parts: Sequence[Part]) -> None:
        """Report parts that no event produced."""
        if self._trace is not None and parts:
            self._trace(None, parts)
        await self._report(parts)

    async def _report(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if self._cancel.is_set():
                return
            if not self._adapter.is_link(part):
                self.output_text += _generated_text(part)
            self._reported.append(part)
            pending = self._progress(part)
            if inspect.isawaitable(pending):
                await pending

    def _state(self) -> list[Part]:
        """Return the parts that are not content: usage for the editor to show, and a marker to store."""
        parts: list[Part] = []
        result, host = self._adapter.result, self.host
        if host.usage_parts and result.usage is not None:
            parts.append(usage_part(result.usage))
        if host.markers and host.endpoint and result.response_id and _can_follow(result):
            # The editor returns the marker with this conversation and the response.
            history = history_of([*self._messages, ChatMessage(Role.ASSISTANT, self._reported)])
            response = (self._model, host.endpoint, result.response_id)
            parts.append(marker_part(*response, self._instructions, history))
        return parts


def _can_follow(result: StreamResult) -> bool:
    """Return whether a follow-up can reference this response: not if it has a call that was not delivered."""
    is_complete = result.status == "completed" and result.error is None and result.stored
    return is_complete and all(each.code != "malformed_tool_call" for each in result.diagnostics)


@asynccontextmanager
async def _closed_on(cancel: asyncio.Event, events: EventStream) -> AsyncIterator[None]:
    """Close the connection as soon as `cancel` is set, even while another task reads from it."""

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
    """Return usage in the format of VS Code's chat: the first three must be numbers (editor 7)."""
    fields = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens or usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
    }
    return DataPart.json(fields, USAGE)


def _generated_text(part: Part) -> list[str]:
    """Return the text in a part that the model generated."""
    if isinstance(part, TextPart):
        return [part.value]
    if isinstance(part, ThinkingPart):
        return [part.value] if isinstance(part.value, str) else [*part.value]
    if isinstance(part, ToolCallPart):
        return [part.name, msgspec.json.encode(part.input).decode()]
    return []
