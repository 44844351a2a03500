"""One chat with one endpoint: which model, what was said, and how a question is asked."""

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

_SOME = 8


class ChatTurn(Struct, frozen=True):
    """How a question went. `answer` or `error`, one of them; `is_kept`: the conversation has it."""

    requests: list[TrackedRequest]
    answer: Answer | None = None
    error: OpenResponsesError | None = None
    is_kept: bool = True


class ChatClient:
    """Belongs to one event loop. `aclose` closes the connections."""

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
        # Endpoints find the cache of a conversation by it.
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
        """Take the wanted model, or the only one that the endpoint lists.

        Nobody there is a `UsageError`. An endpoint that lists nothing may answer all the same, so a failure
        is raised only where the list is needed.
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
        """Ask, run tools, and go on until there is an answer. What came of it is part of the conversation.

        A question of which nothing came is not: whatever is asked next would be asked beside it.
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
    """Images first: a model that reads them in order knows what the question is about."""
    return [*images, *([TextPart(text)] if text.strip() else [])]


def _only(listed: list[str]) -> str:
    if len(listed) == 1:
        return listed[0]
    if not listed:
        raise UsageError("the endpoint lists no models: name one with --model NAME")
    more = f" and {len(listed) - _SOME} more (penstock models)" if len(listed) > _SOME else ""
    named = one_line(", ".join(listed[:_SOME]))
    raise UsageError(f"choose a model with --model NAME: {named}{more}")
