"""A chat with one endpoint: the selected model, the transcript, and sending questions."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.cli import UsageError
from penstock.cli.chat.transcript import Transcript
from penstock.cli.endpoint import EndpointOptions
from penstock.cli.endpoint_errors import no_gateway
from penstock.cli.terminal_text import one_line
from penstock.client.client import OpenResponsesClient
from penstock.errors import NetworkError, OpenResponsesError
from penstock.models.info import ModelInfo
from penstock.parts.parts import ChatMessage, MessagePart, Role, TextPart
from penstock.provider.loop import Answer, Listener, Tool, converse
from penstock.provider.options import CONVERSATION
from penstock.provider.provider import LanguageModelProvider
from penstock.provider.tracker import TrackedRequest

_MAX_LISTED = 8


class ChatTurn(Struct, frozen=True):
    """The outcome of a question: either `answer` or `error` is set."""

    requests: list[TrackedRequest]
    answer: Answer | None = None
    error: OpenResponsesError | None = None
    is_in_transcript: bool = True
    """Whether the question was added to the conversation."""


class ChatClient:
    """A chat client, bound to one event loop. `aclose` closes the connections."""

    def __init__(
        self,
        endpoint: EndpointOptions,
        transcript: Transcript,
        tools: Sequence[Tool] = (),
        *,
        effort: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.transcript = transcript
        self.tools = tools
        self.info: ModelInfo | None = None
        self._client = OpenResponsesClient(endpoint.config)
        self._directory = endpoint.directory(self._client)
        self.provider = LanguageModelProvider(self._client, self._directory)
        # Endpoints use it to find the prompt cache of a conversation.
        self._options: dict[str, Any] = {CONVERSATION: f"chat-{secrets.token_hex(8)}"}
        if effort:
            self._options["reasoning_effort"] = effort

    @property
    def model(self) -> str:
        return self.info.id if self.info else ""

    async def aclose(self) -> None:
        await self._client.aclose()

    async def models(self) -> list[ModelInfo]:
        return await self.provider.provide_models()

    async def choose(self, wanted: str | None) -> None:
        """Select the wanted model, or the only one that the endpoint lists.

        Raises `UsageError` if nothing listens at the address. An endpoint without a model list may still
        answer, so an error of the list is raised only if no model was named.
        """
        try:
            listed = [model.id for model in await self.models()]
        except OpenResponsesError as error:
            if isinstance(error, NetworkError) and error.phase == "connect":
                raise UsageError(f"{error.message}{no_gateway(self.endpoint)}") from None
            if not wanted:
                raise
            listed = []
        name = wanted or _only(listed)
        self.info = await self._directory.get(name)

    async def ask(
        self, content: Sequence[MessagePart], listener: Listener, cancel: asyncio.Event | None = None
    ) -> ChatTurn:
        """Send the question, run tools until there is an answer, and add both to the conversation.

        A question without any answer is not added: the next request would contain two questions in a row.
        """
        question = ChatMessage(Role.USER, content)
        record: list[ChatMessage] = []
        tracker = self.provider.tracker
        before = tracker.total.requests
        answer, failure = None, None
        try:
            answer = await converse(
                self.provider,
                self.model,
                [*self.transcript.messages, question],
                self.tools,
                options=self._options,
                listener=listener,
                cancel=cancel,
                record=record,
            )
        except OpenResponsesError as error:
            failure = error
        if record:
            self.transcript.add([question, *record])
        count = tracker.total.requests - before
        requests = [*tracker.recent][-count:] if count else []
        return ChatTurn(requests, answer, failure, bool(record))


def question_of(text: str, images: Sequence[MessagePart]) -> list[MessagePart]:
    """Return the parts of a message, images first: models read in order."""
    return [*images, *([TextPart(text)] if text.strip() else [])]


def _only(listed: list[str]) -> str:
    if len(listed) == 1:
        return listed[0]
    if not listed:
        raise UsageError("the endpoint lists no models: choose one with --model NAME")
    more = f" and {len(listed) - _MAX_LISTED} more (penstock models)" if len(listed) > _MAX_LISTED else ""
    named = one_line(", ".join(listed[:_MAX_LISTED]))
    raise UsageError(f"choose a model with --model NAME: {named}{more}")
