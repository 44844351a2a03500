"""The asynchronous client of an OpenResponses endpoint."""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from penstock.client.config import ClientConfig
from penstock.client.event_reader import read_body
from penstock.client.event_stream import EventStream
from penstock.client.retries import Patience, RetryPolicy, log_failure
from penstock.errors import DecodeError, InvalidRequestError, NotFoundError, OpenResponsesError
from penstock.net.error_responses import closed_meanwhile, unlawful
from penstock.net.urls import read_address
from penstock.protocol.content import JsonObject
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import Wire, encode, read

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer
    from penstock.net.transport import Transport

T = TypeVar("T")

_SSE = "text/event-stream"


class ItemPage(Wire):
    """Some of the items that a response was made from."""

    data: list[Item] = []
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None

    def next_after(self, after: str | None) -> str | None:
        """What to ask for the next page with, if there is one. A server that ignores it is asked no more."""
        last = self.last_id or (self.data[-1].id if self.data else None)  # some servers do not say it twice
        return last if last and self.has_more and last != after else None


class OpenResponsesClient:
    """Talks to one endpoint. Belongs to the event loop that its first request runs on.

    Failures are raised as `penstock.errors.OpenResponsesError`, by kind, and logged to `penstock.client`.
    `sleep` and `random` are for tests.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._config = config
        self._address = read_address(config.base_url)
        self._patience = Patience(RetryPolicy(config.retries, config.max_retry_wait, random), sleep)
        self._streams: WeakSet[EventStream] = WeakSet()
        self._opened: Transport | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config!r})"

    def stream(self, request: CreateResponse) -> EventStream:
        """Create a response and read it as it is made. It is sent when the first event is asked for."""
        self._check_open()
        body = encode(replace(request, stream=True))

        async def post() -> HttpAnswer:
            return await self._transport().send(
                "POST", self._address.url("responses"), accept=_SSE, body=body
            )

        # What is not stored cannot be asked for again.
        return self._remembered(
            EventStream(post, self._get_stream if request.store is not False else None, *self._terms())
        )

    def resume(self, response_id: str, *, starting_after: int | None = None) -> EventStream:
        """Read the stream of a stored response, from the beginning or after an event, be it over or not."""
        self._check_open()
        _named(response_id)

        async def get() -> HttpAnswer:
            return await self._get_stream(response_id, starting_after)

        stream = EventStream(
            get, self._get_stream, *self._terms(), response_id=response_id, starting_after=starting_after
        )
        return self._remembered(stream)

    async def create(self, request: CreateResponse) -> Response:
        """Create a response and wait for all of it."""
        url, body = self._address.url("responses"), encode(replace(request, stream=False))
        return await self._ask("POST", url, _response, body=body, is_work=True)

    async def retrieve(self, response_id: str) -> Response:
        return await self._ask("GET", self._address.url("responses", _named(response_id)), _response)

    async def cancel(self, response_id: str) -> Response:
        url = self._address.url("responses", _named(response_id), "cancel")
        return await self._ask("POST", url, _response)

    async def delete(self, response_id: str) -> None:
        await self._ask("DELETE", self._address.url("responses", _named(response_id)), _nothing)

    async def input_items(
        self,
        response_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        order: str | None = None,
    ) -> ItemPage:
        """One page of what the response was made from. `order` is `asc` or `desc`."""
        asked = {"limit": limit, "after": after, "order": order}
        parameters = {name: str(value) for name, value in asked.items() if value is not None}
        url = self._address.url("responses", _named(response_id), "input_items", **parameters)
        return await self._ask("GET", url, _page)

    async def all_input_items(self, response_id: str, *, order: str | None = None) -> AsyncIterator[Item]:
        """What the response was made from, page after page."""
        after: str | None = None
        while True:
            page = await self.input_items(response_id, after=after, order=order)
            for item in page.data:
                yield item
            after = page.next_after(after)
            if after is None:
                return

    async def models(self) -> list[JsonObject]:
        """The models that the endpoint lists, each as it describes it."""
        return await self._ask("GET", self._address.url("models"), _models)

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        """Ask the server something outside of the protocol, by a path from its root: GET, or POST of a body.

        None where the server has nothing there.
        """
        method, data = ("GET", None) if body is None else ("POST", encode(body))
        try:
            return await self._ask(method, self._address.from_root(path), _anything, body=data)
        except NotFoundError:
            return None

    async def aclose(self) -> None:
        """End every stream and close every connection. The client cannot be used after this."""
        self._is_closed = True
        for stream in list(self._streams):
            await stream.aclose()
        if self._opened is not None:
            await self._opened.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the client is closed")

    def _transport(self) -> Transport:
        self._check_open()
        if self._opened is None:
            # Half a second of imports, which only those pay who send something.
            from penstock.net.transport import Transport

            self._opened = Transport(self._config.connections(), self._address)
        return self._opened

    def _terms(self) -> tuple[Patience, int]:
        return self._patience, self._config.resumes

    def _remembered(self, stream: EventStream) -> EventStream:
        self._streams.add(stream)
        return stream

    async def _get_stream(self, response_id: str, starting_after: int | None) -> HttpAnswer:
        parameters = {"stream": "true"}
        if starting_after is not None:
            parameters["starting_after"] = str(starting_after)
        url = self._address.url("responses", response_id, **parameters)
        return await self._transport().send("GET", url, accept=_SSE)

    async def _ask(
        self,
        method: str,
        url: str,
        reading: Callable[[Any], T],
        *,
        body: bytes | None = None,
        is_work: bool = False,
    ) -> T:
        """Send a request until it is answered, and read the answer. `is_work`: it must not be done twice."""
        attempt = 0
        while True:
            try:
                return await self._ask_once(method, url, reading, body)
            except OpenResponsesError as error:
                failure = closed_meanwhile() if self._is_closed else error
            # A server that is silent may still be at work: asked again, it would do everything once more.
            is_final = is_work and failure.phase in ("first_byte", "idle")
            if is_final or not await self._patience.allows_another(failure, attempt):
                log_failure(failure)
                raise failure
            attempt += 1

    async def _ask_once(self, method: str, url: str, reading: Callable[[Any], T], body: bytes | None) -> T:
        answer = await self._transport().send(method, url, body=body)
        try:
            data = await answer.body()
        finally:
            answer.close()
        value = read_body(answer, data)
        if reading in (_models, _anything):
            value = answer.mask_value(value)  # what the server says of itself may repeat what it was sent
        if value is None and reading is not _nothing:
            problem = (
                "streamed although it should not" if answer.content_type == _SSE else "sent no JSON document"
            )
            raise unlawful(f"the endpoint {problem}", answer.request_id)
        try:
            return reading(value)
        except DecodeError as error:
            raise unlawful(f"the answer cannot be read: {error}", answer.request_id) from None


def _named(response_id: str) -> str:
    """An id that can be a step of a path: without one, the request would mean all responses."""
    if response_id.strip(".") == "":
        raise InvalidRequestError("the id of a response is missing", param="response_id")
    return response_id


def _response(value: Any) -> Response:
    return read(value, Response)


def _page(value: Any) -> ItemPage:
    return read(value, ItemPage)


def _nothing(value: Any) -> None:
    """Whatever a deleted response is said to be, it is gone."""


def _anything(value: Any) -> Any:
    return value


def _models(value: Any) -> list[JsonObject]:
    """A body may have both OpenAI's list and Codex's, which says more of the same models (ask I1)."""
    more: Any = None
    listed = value
    if isinstance(value, dict):
        more = value.get("models")
        listed = value.get("data") or more or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise DecodeError("expected an array of objects", "data")
    known = {_model_name(each): each for each in more or [] if isinstance(each, dict)}
    return [{**known.get(_model_name(each), {}), **each} for each in listed]


def _model_name(entry: JsonObject) -> str:
    names = (entry.get(field) for field in ("id", "slug", "model", "name"))
    return next((name for name in names if isinstance(name, str)), "")
