"""The asynchronous client for an OpenResponses endpoint."""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from penstock.client.config import ClientConfig
from penstock.client.event_reader import other_format_error, read_body
from penstock.client.event_stream import EventStream
from penstock.client.retries import Retrier, RetryPolicy, log_failure
from penstock.errors import DecodeError, InvalidRequestError, NotFoundError, OpenResponsesError
from penstock.net.error_responses import client_closed, protocol_error
from penstock.net.urls import read_address
from penstock.net.wrong_addresses import not_an_answer
from penstock.protocol.content import JsonObject
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import Wire, encode, read
from penstock.sse import CONTENT_TYPE

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer
    from penstock.net.transport import Transport

T = TypeVar("T")


class ItemPage(Wire):
    """One page of the input items of a response."""

    data: list[Item] = []
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None

    def next_after(self, after: str | None) -> str | None:
        """Return the `after` of the next page; None if this is the last or the server ignores `after`."""
        last = self.last_id or (self.data[-1].id if self.data else None)  # some servers send no `last_id`
        return last if last and self.has_more and last != after else None


class OpenResponsesClient:
    """A client for one endpoint. It belongs to the event loop of its first request.

    Failures are raised as subclasses of `penstock.errors.OpenResponsesError` and logged to `penstock.client`.
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
        self._retrier = Retrier(RetryPolicy(config.retries, config.max_retry_wait, random), sleep)
        self._streams: WeakSet[EventStream] = WeakSet()
        self._opened: Transport | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config!r})"

    def stream(self, request: CreateResponse) -> EventStream:
        """Create a response and stream its events. The request is sent when the first event is read."""
        self._check_open()
        body = encode(replace(request, stream=True))

        async def post() -> HttpAnswer:
            return await self._transport().send(
                "POST", self._address.url("responses"), accept=CONTENT_TYPE, body=body
            )

        # A response that is not stored cannot be resumed.
        resume = self._get_stream if request.store is not False else None
        return self._track(EventStream(post, resume, self._retrier, self._config.resumes))

    def resume(self, response_id: str, *, starting_after: int | None = None) -> EventStream:
        """Stream a stored response, finished or not, from the beginning or after an event."""
        self._check_open()
        _check_id(response_id)

        async def get() -> HttpAnswer:
            return await self._get_stream(response_id, starting_after)

        stream = EventStream(
            get,
            self._get_stream,
            self._retrier,
            self._config.resumes,
            response_id=response_id,
            starting_after=starting_after,
        )
        return self._track(stream)

    async def create(self, request: CreateResponse) -> Response:
        """Create a response and wait until it is complete."""
        url, body = self._address.url("responses"), encode(replace(request, stream=False))
        return await self._request("POST", url, _response, body=body, is_work=True)

    async def retrieve(self, response_id: str) -> Response:
        return await self._request("GET", self._address.url("responses", _check_id(response_id)), _response)

    async def cancel(self, response_id: str) -> Response:
        url = self._address.url("responses", _check_id(response_id), "cancel")
        return await self._request("POST", url, _response)

    async def delete(self, response_id: str) -> None:
        await self._request("DELETE", self._address.url("responses", _check_id(response_id)), _nothing)

    async def input_items(
        self,
        response_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        order: str | None = None,
    ) -> ItemPage:
        """Return one page of the input items of a response. `order` is `asc` or `desc`."""
        options = {"limit": limit, "after": after, "order": order}
        parameters = {name: str(value) for name, value in options.items() if value is not None}
        url = self._address.url("responses", _check_id(response_id), "input_items", **parameters)
        return await self._request("GET", url, _page)

    async def all_input_items(self, response_id: str, *, order: str | None = None) -> AsyncIterator[Item]:
        """Yield all input items of a response, page by page."""
        after: str | None = None
        while True:
            page = await self.input_items(response_id, after=after, order=order)
            for item in page.data:
                yield item
            after = page.next_after(after)
            if after is None:
                return

    async def models(self) -> list[JsonObject]:
        """Return the models that the endpoint lists, each as the endpoint describes it."""
        return await self._request("GET", self._address.url("models"), _models)

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        """Send a request outside the protocol to a path from the server's root: GET, or POST with a body.

        Return None if the server answers 404.
        """
        method, data = ("GET", None) if body is None else ("POST", encode(body))
        try:
            return await self._request(method, self._address.from_root(path), _anything, body=data)
        except NotFoundError:
            return None

    async def aclose(self) -> None:
        """End all streams and close all connections. The client cannot be used afterwards."""
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
            # A program that sends nothing does not import TLS and the HTTP parser.
            from penstock.net.transport import Transport

            self._opened = Transport(self._config.connections(), self._address)
        return self._opened

    def _track(self, stream: EventStream) -> EventStream:
        self._streams.add(stream)
        return stream

    async def _get_stream(self, response_id: str, starting_after: int | None) -> HttpAnswer:
        parameters = {"stream": "true"}
        if starting_after is not None:
            parameters["starting_after"] = str(starting_after)
        url = self._address.url("responses", response_id, **parameters)
        return await self._transport().send("GET", url, accept=CONTENT_TYPE)

    async def _request(
        self,
        method: str,
        url: str,
        convert: Callable[[Any], T],
        *,
        body: bytes | None = None,
        is_work: bool = False,
    ) -> T:
        """Send a request, with retries, and convert the answer. `is_work`: the request must not run twice."""
        attempt = 0
        while True:
            try:
                return await self._request_once(method, url, convert, body)
            except OpenResponsesError as error:
                failure = client_closed() if self._is_closed else error
            # After a timeout the server may still be working: a retry would do the work twice.
            is_final = is_work and failure.phase in ("first_byte", "idle")
            if is_final or not await self._retrier.wait_for_retry(failure, attempt):
                log_failure(failure)
                raise failure
            attempt += 1

    async def _request_once(
        self, method: str, url: str, convert: Callable[[Any], T], body: bytes | None
    ) -> T:
        answer = await self._transport().send(method, url, body=body)
        try:
            data = await answer.body()
        finally:
            answer.close()
        value = read_body(answer, data)
        if convert in (_models, _anything):
            value = answer.mask_value(value)  # a server may repeat the key that it was sent
        if value is None and convert is not _nothing:
            message = "the endpoint returned an event stream instead of a JSON document; check the base URL"
            if answer.content_type != CONTENT_TYPE:
                message = not_an_answer("the endpoint", answer, data, "a JSON document")
            raise protocol_error(message, answer.request_id, code="no_json_document")
        is_response = isinstance(value, dict) and isinstance(value.get("output"), list)
        if convert is _response and not is_response and (other := other_format_error(answer, data)):
            raise other
        try:
            return convert(value)
        except DecodeError as error:
            message = (
                f"the answer to {answer.mask(str(answer.asked))} is invalid: {error}; check the base URL"
            )
            raise protocol_error(message, answer.request_id) from None


def _check_id(response_id: str) -> str:
    """Return the id if it can be a path segment: without one, the request would address all responses."""
    if response_id.strip(".") == "":
        raise InvalidRequestError("the response id is missing", param="response_id")
    return response_id


def _response(value: Any) -> Response:
    return read(value, Response)


def _page(value: Any) -> ItemPage:
    return read(value, ItemPage)


def _nothing(value: Any) -> None:
    """Ignore the body: the status reports the deletion."""


def _anything(value: Any) -> Any:
    return value


def _models(value: Any) -> list[JsonObject]:
    """Read a list of models. A body may have OpenAI's list and Codex's, which has more details (ask I1)."""
    details: Any = None
    listed = value
    if isinstance(value, dict):
        details = value.get("models")
        listed = value.get("data") or details or []
        if "data" not in value and "models" not in value:
            raise DecodeError("expected a list of models", "data")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise DecodeError("expected an array of objects", "data")
    known = {_model_name(entry): entry for entry in details or [] if isinstance(entry, dict)}
    return [{**known.get(_model_name(entry), {}), **entry} for entry in listed]


def _model_name(entry: JsonObject) -> str:
    names = (entry.get(field) for field in ("id", "slug", "model", "name"))
    return next((name for name in names if isinstance(name, str)), "")
