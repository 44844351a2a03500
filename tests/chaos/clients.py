"""Clients of a site, as they should be written: they resume where a connection broke, and repeat what was
refused for the moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from tests.chaos.site import KEY, Site
from tests.chaos.upstream import prompt_for

Json = dict[str, Any]
DEADLINE = 60.0
"""Seconds for an answer, whatever fails meanwhile."""
_PAUSE = 0.1
_KINDS = ("stream", "stream with key", "background", "background stream", "cancel", "json with key", "follow")
UNSTORED = ("unstored stream", "unstored json")
"""Turns with `store: false`. If the connection breaks, nobody has their answer."""
_BUSY = (429, 502, 503)

ENDINGS = ("worker_lost", "shutting_down")
"""The codes of turns that were ended because their worker did: to ask again does not change that."""
UNKNOWN_OUTCOME = "idempotency_outcome_unknown"
"""The code of an answer to a key: its worker died before the turn had an id, and it is not run again."""


class Broken(Exception):  # noqa: N818 - named after what happened
    """The connection broke, or the answer was to come back later."""

    def __init__(self, what: str, *, is_refusal: bool = False) -> None:
        super().__init__(what)
        self.is_refusal = is_refusal


class Call:
    """One turn, and what its client has seen of it."""

    def __init__(self, name: str, kind: str, words: int, seconds: float) -> None:
        self.name, self.kind = name, kind
        self.words, self.seconds = words, seconds
        self.id = ""
        self.events: list[Json] = []
        self.response: Json | None = None
        self.problems: list[str] = []
        self.broken = 0
        self.was_never_stored = False
        """Whether its worker died while its first event said `store_late`."""
        self.is_lost = False
        """Whether its client knows that it has failed, or got no answer, and has no id to ask again."""

    @property
    def has_key(self) -> bool:
        return self.kind.endswith("with key")

    @property
    def is_stored(self) -> bool:
        return self.kind not in UNSTORED

    @property
    def can_ask_again(self) -> bool:
        """Whether its client can get the answer on another connection, and the turn does not run again."""
        return self.is_stored and (self.has_key or bool(self.id))

    @property
    def ends(self) -> list[Json]:
        return [event for event in self.events if event["type"] in TERMINAL]

    @property
    def last(self) -> Json | None:
        """The response as its client got it last."""
        return self.ends[-1]["response"] if self.ends else self.response

    @property
    def is_over(self) -> bool:
        return bool(self.ends) or self.was_never_stored or self.is_lost

    def body(self, **fields: Any) -> Json:
        prompt = prompt_for(self.name, self.words, self.seconds)
        return {"model": "m", "input": prompt if self.is_stored else _tool_loop(prompt), **fields}

    def __repr__(self) -> str:
        return f"{self.kind} {self.name} {self.id}"


class Clients:
    """Starts turns at a site, and counts what their clients see."""

    def __init__(self, site: Site, session: aiohttp.ClientSession) -> None:
        self._site, self._session = site, session
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()

    # Requests

    @asynccontextmanager
    async def _ask(
        self, call: Call, method: str, path: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; raise `Broken` if it is to be sent again."""
        headers = {"authorization": f"Bearer {KEY}"}
        if method == "POST" and path == "/v1/responses" and call.has_key:
            headers["idempotency-key"] = call.name
        try:
            async with self._session.request(
                method, self._site.base + path, headers=headers, **options
            ) as answer:
                if answer.status in _BUSY and await _code(answer) not in ENDINGS:
                    whose = "" if call.is_stored else " to unstored turns"
                    self.counts[f"answers with {answer.status}{whose}"] += 1
                    if answer.status != 502 and "retry-after" not in answer.headers:
                        call.problems.append(f"{answer.status} without retry-after: {await answer.text()}")
                    raise Broken(str(answer.status), is_refusal=True)
                yield answer
        except (aiohttp.ClientError, OSError) as error:  # a timeout is one
            call.broken += 1
            self.counts["broken connections"] += 1
            raise Broken(type(error).__name__) from None

    async def _json(self, call: Call, method: str, path: str, **options: Any) -> tuple[int, Json]:
        while True:
            try:
                async with self._ask(call, method, path, **options) as answer:
                    body = await answer.json()
                    return answer.status, body
            except Broken as error:
                if not error.is_refusal and not call.can_ask_again:
                    raise
                await asyncio.sleep(_PAUSE)

    async def _read(self, call: Call, method: str, path: str, **options: Any) -> None:
        """Read a stream to its end, or until it breaks."""
        async with self._ask(call, method, path, **options) as answer:
            if answer.status == 404 and call.events and is_late(call.events[0]["response"]):
                call.was_never_stored = True
                return
            if answer.status == 409 and await _code(answer) == UNKNOWN_OUTCOME:
                self._lose(call, UNKNOWN_OUTCOME)
                return
            if answer.status != 200:
                call.problems.append(f"{method} {path}: {answer.status} {await answer.text()}")
                raise AssertionError(call.problems)
            decoder = Decoder()
            async for data in answer.content.iter_any():
                for frame in decoder.feed(data):
                    if frame.data != "[DONE]":
                        self._take(call, json.loads(frame.data))

    def _take(self, call: Call, event: Json) -> None:
        number = event["sequence_number"]
        if number != len(call.events):
            last = [f"{each['sequence_number']} {each['type']}" for each in call.events[-3:]]
            call.problems.append(f"event {number} ({event['type']}) came after {last}")
        if call.ends:
            call.problems.append(f"{event['type']} came after the end")
        call.events.append(event)
        if "response" in event:
            call.id = event["response"]["id"]

    # Turns

    async def run(self, call: Call, previous: Call | None = None) -> Call:
        """Run a turn, and follow it to its end."""
        self.calls.append(call)
        self.counts[call.kind] += 1
        try:
            async with asyncio.timeout(DEADLINE):
                await self._run(call, previous)
        except TimeoutError:
            call.problems.append(f"no answer in {DEADLINE:g} seconds")
        except AssertionError as error:
            call.problems.append(str(error))
        return call

    async def _run(self, call: Call, previous: Call | None) -> None:
        match call.kind:
            case "stream" | "stream with key":
                await self._stream(call, call.body(stream=True))
            case "background stream":
                await self._stream(call, call.body(stream=True, background=True))
            case "background" | "cancel":
                await self._poll(call)
            case "json with key":
                await self._whole(call, call.body())
            case "unstored stream":
                await self._stream(call, call.body(stream=True, store=False))
            case "unstored json":
                await self._whole(call, call.body(store=False))
            case "follow":
                assert previous is not None
                await self._stream(call, call.body(stream=True, previous_response_id=previous.id))

    async def _whole(self, call: Call, body: Json) -> None:
        try:
            status, answer = await self._json(call, "POST", "/v1/responses", json=body)
        except Broken:
            call.is_lost = True
            return
        error = answer.get("error") or {}
        if status == 200:
            call.id, call.response = answer["id"], answer
        elif error.get("code") in (*ENDINGS, UNKNOWN_OUTCOME):
            self._lose(call, error["code"])  # an answer, but one without an id
        else:
            call.problems.append(f"{status} {answer}")

    def _lose(self, call: Call, code: str) -> None:
        call.is_lost = True
        self.counts[f"errors {code}"] += 1

    async def _stream(self, call: Call, body: Json) -> None:
        while not call.is_over:
            try:
                if not call.id:
                    await self._read(call, "POST", "/v1/responses", json=body)
                else:
                    after = f"&starting_after={len(call.events) - 1}" if call.events else ""
                    self.counts["resumes"] += 1
                    await self._read(call, "GET", f"/v1/responses/{call.id}?stream=true{after}")
                if not call.is_over:
                    self.counts["streams without an end"] += 1
                    raise Broken("no end")
            except Broken as error:
                if not error.is_refusal and not call.can_ask_again:
                    call.is_lost = True  # nobody can know what became of it
                    return
                await asyncio.sleep(_PAUSE)

    async def _poll(self, call: Call) -> None:
        """Start a background turn, perhaps cancel it, poll until it has ended, and read its events."""
        try:
            async with self._ask(call, "POST", "/v1/responses", json=call.body(background=True)) as answer:
                body = await answer.json()
                assert answer.status == 200, body
                call.id = body["id"]
        except Broken:
            call.is_lost = True
            return
        if call.kind == "cancel":
            await asyncio.sleep(call.words * call.seconds / 2)
            status, body = await self._json(call, "POST", f"/v1/responses/{call.id}/cancel")
            assert status == 200, f"cancel: {status} {body}"
        while True:
            status, body = await self._json(call, "GET", f"/v1/responses/{call.id}")
            assert status == 200, f"poll: {status} {body}"
            if body["status"] not in ("queued", "in_progress"):
                call.response = body
                break
            await asyncio.sleep(_PAUSE)
        await self._stream(call, {})

    async def stored(self, call: Call) -> tuple[int, Json]:
        return await self._json(call, "GET", f"/v1/responses/{call.id}")

    async def log(self, call: Call) -> Call:
        """Return what a new client reads of a turn."""
        copy = Call(call.name, "log", call.words, call.seconds)
        copy.id = call.id
        async with asyncio.timeout(DEADLINE):
            while not copy.ends and not copy.problems:
                copy.events = []
                try:
                    await self._read(copy, "GET", f"/v1/responses/{call.id}?stream=true")
                except Broken:
                    await asyncio.sleep(_PAUSE)
                except AssertionError:
                    break
        return copy


class Load:
    """Clients that start one turn after the other until they are stopped."""

    def __init__(
        self,
        clients: Clients,
        *,
        words: int = 20,
        seconds: float = 0.05,
        name: str = "n",
        kinds: Sequence[str] = _KINDS,
    ) -> None:
        self.clients = clients
        self._name, self._kinds = name, kinds
        self._words, self._seconds = words, seconds
        self._is_stopped = False

    @asynccontextmanager
    async def running(self, many: int) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._one(number)) for number in range(many)]
        try:
            yield
        finally:
            self._is_stopped = True
            await asyncio.gather(*tasks)

    async def _one(self, number: int) -> None:
        began, previous = time.monotonic(), None
        for turn in range(1_000_000):
            kind = self._kinds[(number + turn) % len(self._kinds)]
            if kind == "follow" and (previous is None or not is_complete(previous)):
                kind = "stream"
            call = Call(f"{self._name}{number}t{turn}", kind, self._words, self._seconds)
            await self.clients.run(call, previous)
            previous = call
            if self._is_stopped:
                self.clients.counts["seconds"] = round(time.monotonic() - began)
                return


def _tool_loop(prompt: str) -> list[Json]:
    """Return the input of an agent that keeps the history itself: a call, which may have had reasoning."""
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "nothing"}
    first, last = ({"role": "user", "content": text} for text in ("Look around.", prompt))
    return [first, call, output, last]


def is_late(response: Json) -> bool:
    return any(each["code"] == "store_late" for each in response.get("diagnostics") or ())


async def _code(answer: aiohttp.ClientResponse) -> str:
    body = await answer.json()
    return str((body.get("error") or {}).get("code"))


def is_complete(call: Call) -> bool:
    return call.last is not None and call.last["status"] == "completed"


@asynccontextmanager
async def clients_of(site: Site, *, silence: float | None = None) -> AsyncIterator[Clients]:
    """Return clients that give up a connection on which nothing came for `silence` seconds."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=DEADLINE, sock_read=silence)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Clients(site, session)
