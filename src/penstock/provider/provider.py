"""The entry point: send messages to a model, report its parts, and track usage."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from penstock.errors import ContextOverflowError, InvalidRequestError, OpenResponsesError
from penstock.models.info import LearnedLimit, ModelInfo
from penstock.parts.adapter import Log
from penstock.parts.messages import (
    TranslatedMessages,
    instructions_of,
    system_prompt_of,
    translate_messages,
    translate_tool_mode,
    translate_tools,
)
from penstock.parts.parts import ChatMessage
from penstock.parts.result import StreamResult
from penstock.parts.tracing import Trace
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import CreateResponse
from penstock.provider.editor_turn import EditorTurn, Host, HostSettings, Progress
from penstock.provider.options import ResponseOptions, with_options
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

if TYPE_CHECKING:
    from penstock.client.client import OpenResponsesClient
    from penstock.models.directory import ModelDirectory

T = TypeVar("T")

_REQUEST_NUMBERS = count(1)
"""Request numbers, shared by all providers, because they may share a tracker."""

NOT_FOUND = "previous_response_not_found"
"""The error code if the endpoint does not have the response that a follow-up references (decision 9)."""


class LanguageModelProvider:
    """Provides the models of one endpoint. Use it in the event loop of its client."""

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
        self.counter = counter or TokenCounter()
        self.tracker = tracker or UsageTracker()

    async def provide_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        return await self._directory.list(refresh)

    def provide_token_count(self, model: str, counted: str | ChatMessage) -> int:
        """Count tokens locally, without failing: an editor asks for every piece of a prompt (ask D3)."""
        if isinstance(counted, str):
            return self.counter.count_text(model, counted)
        return self.counter.count_message(model, counted)

    def forget_limits(self, models: Iterable[str] | None = None) -> dict[str, LearnedLimit]:
        """Forget the learned limits of these models, or of all; return what was forgotten."""
        return self._directory.limits.forget(models) if self._directory.limits else {}

    async def provide_response(
        self,
        model: str,
        messages: Sequence[ChatMessage],
        options: ResponseOptions = ResponseOptions(),  # noqa: B008 - frozen
        progress: Progress = lambda part: None,  # noqa: ARG005
        cancel: asyncio.Event | None = None,
        *,
        settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
        trace: Trace | None = None,
    ) -> StreamResult:
        """Request one response and report it part by part. Raise on failure; parts before it stay valid.

        After `cancel` is set, nothing is reported, the connection is closed and `finish` is `cancelled`: that
        is not a failure (editor 17). `settings` override those of the host for this response. `trace` gets
        every event with the parts it produced.
        """
        cancel = cancel or asyncio.Event()
        info = await _unless(cancel, self._directory.get(model))
        if info is None:
            return StreamResult(finish="cancelled")
        prompt = system_prompt_of(None, options.model_options)
        estimate = self.counter.count_conversation(model, messages, options.tools, prompt)
        agent = f"request-{next(_REQUEST_NUMBERS)}"
        self.tracker.start_request(agent, estimate.tokens, info.max_input, model, prices=info.prices)
        instructions = instructions_of(messages, prompt)
        host = settings.applied_to(self._host)
        turn = EditorTurn(host, model, options, progress, cancel, instructions, messages, self._log, trace)
        try:
            result = await self._respond(turn, info, messages, options)
        except OpenResponsesError as error:
            if not cancel.is_set():
                _add_size(error, estimate.tokens)
                self._failed(agent, model, turn, error)
                await turn.fail(error)
                raise
            result = turn.result  # an error after a cancel is not a failure (editor 17)
        except asyncio.CancelledError:
            self._ended(agent, model, turn, turn.result, is_cancelled=True)
            raise
        except Exception as error:
            self._failed(agent, model, turn, error)
            raise
        self._ended(agent, model, turn, result)
        if result.usage is not None:
            self.counter.learn(model, estimate, result.usage.input_tokens)
            if self._directory.limits is not None:
                # The estimate before calibration: sums of several calls may have raised the calibrated one.
                self._directory.limits.accept(model, result.usage.input_tokens, round(estimate.raw))
        return result

    def _ended(
        self, agent: str, model: str, turn: EditorTurn, result: StreamResult, *, is_cancelled: bool = False
    ) -> None:
        is_cancelled = is_cancelled or result.finish == "cancelled"
        end = self.tracker.cancel_request if is_cancelled else self.tracker.complete_request
        estimated = 0 if result.usage else self._estimated_output(model, turn)
        end(agent, result.usage, estimated_output=estimated, response_id=result.response_id)

    def _failed(self, agent: str, model: str, turn: EditorTurn, error: Exception) -> None:
        estimated, result = self._estimated_output(model, turn), turn.result
        self.tracker.fail_request(
            agent, error, result.usage, estimated_output=estimated, response_id=result.response_id
        )

    def _estimated_output(self, model: str, turn: EditorTurn) -> int:
        return self.counter.count_text(model, "".join(turn.output_text))

    async def _respond(
        self, turn: EditorTurn, info: ModelInfo, messages: Sequence[ChatMessage], options: ResponseOptions
    ) -> StreamResult:
        translated = self._translate(turn.host, info.id, messages, options, follow_marker=True)
        try:
            return await self._attempt(turn, info, translated, options)
        except OpenResponsesError as error:
            # If the endpoint no longer has the marked response, or rejects the follow-up, retry once with the
            # full history (decision 28). Also if it is too long: it may store more than the editor sends.
            is_refused = error.code == NOT_FOUND or isinstance(
                error, InvalidRequestError | ContextOverflowError
            )
            if translated.previous_response_id is None or not is_refused or turn.output_text:
                raise
        translated = self._translate(turn.host, info.id, messages, options, follow_marker=False)
        return await self._attempt(turn, info, translated, options)

    async def _attempt(
        self, turn: EditorTurn, info: ModelInfo, translated: TranslatedMessages, options: ResponseOptions
    ) -> StreamResult:
        request, omitted = self._request(info, translated, options)
        dropped = [Diagnostic(code="option_left_out", message=message) for message in omitted]
        try:
            await turn.run(self._client.stream(request), [*translated.diagnostics, *dropped])
            turn.result.raise_for_error()
        except ContextOverflowError as error:
            # Also from a follow-up that is retried: the limit is the same for the full history.
            error.is_limit_learned = self._directory.learn(info, error.limit_tokens, error.used_tokens)
            raise
        return turn.result

    def _translate(
        self,
        host: Host,
        model: str,
        messages: Sequence[ChatMessage],
        options: ResponseOptions,
        *,
        follow_marker: bool,
    ) -> TranslatedMessages:
        return translate_messages(
            messages,
            model_options=options.model_options,
            model=model,
            endpoint=host.endpoint,
            follow_marker=follow_marker and host.markers,
            system_role=host.system_role,
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
            # Without it OpenAI does not return the reasoning, and a tool loop loses it (ask N3).
            include=["reasoning.encrypted_content"] if info.reasoning else UNSET,
        )
        return with_options(request, options.model_options)


def _add_size(error: OpenResponsesError, estimate: int) -> None:
    """Add our estimate to an overflow without a size, unless it contradicts the limit."""
    if isinstance(error, ContextOverflowError) and error.used_tokens is None:
        error.estimated_tokens = estimate if estimate > (error.limit_tokens or 0) else None


async def _unless(cancel: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of the work; None if `cancel` was set first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(cancel.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() and not cancel.is_set() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
