"""The clients of the soak: each does one thing after the other, at random, and checks what it sees."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import aiohttp

from bench.soak.answers import FAULTS, Json
from bench.soak.sites import BUDGET_KEY, KEY, MINUTE_KEY, NARROW_KEY, RATE_KEY, Site
from bench.soak.turns import MODELS, SeenTurn, StreamReader
from penstock.protocol.events import TERMINAL
from penstock.stream.checker import StreamChecker

DEADLINE = 60.0
"""Seconds for anything that a client does."""
_MOST_PROBLEMS = 200
_POLL = 0.1
_LOOK = 0.002
_RECENT = 300
_LATE = "store_late"


TOO_LATE = "requests on a connection that was just being closed"


class TooLate(Exception):  # noqa: N818 - named after what happened
    """The gateway closes a connection after a stream that has failed, because some clients report the failure
    only then (decision 9). A request that uses the connection at the same moment gets no answer."""


class Clients:
    """Runs actions, and remembers what of it must be found again at the end: ids, outcomes and problems."""

    def __init__(self, site: Site, session: aiohttp.ClientSession, seed: str) -> None:
        self.site, self.session = site, session
        self._seed = seed
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.outcomes: dict[str, tuple[str, str]] = {}
        """By response id: the name of the turn, and how it ended as far as its client knows."""
        self.recent: deque[str] = deque(maxlen=_RECENT)
        """Completed turns that are stored."""
        self._is_stopped = False
        self._answers: set[aiohttp.ClientResponse] = set()

    @asynccontextmanager
    async def running(self, many: int, pause: float) -> AsyncIterator[None]:
        """Run this many clients, which wait between actions: on average `pause` seconds."""
        tasks = [asyncio.create_task(self._one(number, pause)) for number in range(many)]
        try:
            yield
        finally:
            self._is_stopped = True
            await asyncio.gather(*tasks)

    async def _one(self, number: int, pause: float) -> None:
        client = Client(self, random.Random(f"{self._seed}/{number}"))
        actions, weights = zip(*ACTIONS.items(), strict=True)
        while not self._is_stopped:
            [action] = client.random.choices(actions, weights)
            name = action.__name__
            self.counts[name.replace("_", " ")] += 1
            began = monotonic()
            try:
                async with asyncio.timeout(DEADLINE):
                    await action(client)
            except TimeoutError:
                self.report(f"{name}: not over after {DEADLINE:g} seconds")
            except TooLate:
                self.counts[TOO_LATE] += 1
            except (aiohttp.ClientError, OSError) as error:
                # Only the fault `vanish` breaks connections between clients and the gateway.
                if "clients" not in self.site.troubles(began):
                    self.report(f"{name}: the connection broke: {error!r} ({client.last_request})")
                self.counts["broken connections"] += 1
            except Exception as error:  # the rest of the run must not be lost
                self.report(f"{name}: {error!r}")
            await asyncio.sleep(client.random.expovariate(1 / pause))

    async def try_each_model(self) -> None:
        """Run one turn of each model, and read each list, so that everything is loaded and connected."""
        client = Client(self, random.Random(1))
        for model in MODELS:
            turn = SeenTurn("text", random=client.random, gap_ms=0)
            turn.model = model
            self.finish(await client.run_turn(turn))
        for path in LISTS:
            async with self.request("GET", path) as answer:
                await answer.read()

    def report(self, problem: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    def finish(self, turn: SeenTurn, *, is_stored: bool = True) -> None:
        """Check a turn that is over for its client, and remember it."""
        troubles = self.site.troubles(turn.began)
        for problem in turn.problems(troubles):
            self.report(f"{turn!r}: {problem} {sorted(troubles) or ''}")
        self.counts["turns"] += 1
        self.counts[
            f"turns seen as {turn.outcome or ('cut' if turn.is_cut else f'{turn.status} {turn.code}')}"
        ] += 1
        if turn.id:
            self.outcomes[turn.id] = (turn.directions.name, turn.outcome)
        diagnostics = (turn.response or {}).get("diagnostics") or ()
        is_late = any(each["code"] == _LATE for each in diagnostics)
        self.counts["turns with store_late"] += is_late
        if turn.outcome == "completed" and is_stored and not is_late and turn.directions.how != "call":
            self.recent.append(turn.id)

    # Connections

    @asynccontextmanager
    async def request(
        self, method: str, path: str, *, key: str = KEY, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"authorization": f"Bearer {key}", "x-penstock-accent": "openresponses"}
        headers |= options.pop("headers", {})
        try:
            answer = await self.session.request(method, self.site.base + path, headers=headers, **options)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise TooLate from error
        async with answer:
            self._answers.add(answer)
            try:
                yield answer
            finally:
                self._answers.discard(answer)

    def vanish(self) -> None:
        """Close what clients are reading, all at once and without a word."""
        for answer in [*self._answers]:
            if answer.connection is not None and answer.connection.transport is not None:
                answer.connection.transport.abort()


class Client:
    """One client. Its methods are the actions of the load."""

    def __init__(self, clients: Clients, random: random.Random) -> None:
        self.clients, self.random = clients, random
        self.last_request = ""

    # Turns

    def _turn(self, how: str = "", **options: Any) -> SeenTurn:
        how = how or self.random.choice(("text", "text", "text", "reasoning", "drip"))
        if how == "drip":
            options.setdefault("words", 4)
        return SeenTurn(how, random=self.random, **options)

    async def run_turn(
        self, turn: SeenTurn, *, stop_after: int = 0, key: str = KEY, **fields: Any
    ) -> SeenTurn:
        """Read a stream; leave after `stop_after` events, if that is not 0."""
        headers = fields.pop("headers", {})
        body = turn.body(stream=True, **fields)
        async with self.clients.request(
            "POST", "/v1/responses", key=key, json=body, headers=headers
        ) as answer:
            turn.status = answer.status
            if answer.status != 200:
                turn.take_json(await answer.json())
                return turn
            await self._read(turn, answer, stop_after)
        return turn

    async def _read(
        self, turn: SeenTurn, answer: aiohttp.ClientResponse, stop_after: int = 0, *, is_resumed: bool = False
    ) -> None:
        reader = StreamReader(turn, is_resumed=is_resumed)
        try:
            async for data in answer.content.iter_any():
                reader.feed(data)
                if stop_after and len(turn.events) >= stop_after and not turn.is_done:
                    turn.is_cut = True
                    answer.close()
                    return
        except (aiohttp.ClientError, OSError):
            turn.is_cut = True
            if "clients" not in self.clients.site.troubles(turn.began):
                turn.violations.append("the connection broke")
            return
        reader.end()

    async def _whole(self, turn: SeenTurn, *, key: str = KEY, **fields: Any) -> SeenTurn:
        headers = fields.pop("headers", {})
        body = turn.body(**fields)
        async with self.clients.request(
            "POST", "/v1/responses", key=key, json=body, headers=headers
        ) as answer:
            turn.status = answer.status
            turn.take_json(await answer.json())
        return turn

    async def stream(self) -> None:
        self.clients.finish(await self.run_turn(self._turn()))

    async def whole(self) -> None:
        self.clients.finish(await self._whole(self._turn()))

    async def unstored(self) -> None:
        ask = self.run_turn if self.random.random() < 0.7 else self._whole
        self.clients.finish(await ask(self._turn("text"), store=False), is_stored=False)

    async def failing(self) -> None:
        ask = self.run_turn if self.random.random() < 0.7 else self._whole
        store = self.random.random() < 0.7
        turn = await ask(self._turn(self.random.choice(FAULTS)), store=store)
        self.clients.finish(turn, is_stored=store)

    async def continued(self) -> None:
        """Continue a turn of any client, with `previous_response_id`."""
        if not self.clients.recent:
            return await self.stream()
        previous = self.random.choice(self.clients.recent)
        turn = await self.run_turn(self._turn(), previous_response_id=previous)
        if turn.code == "previous_response_not_found":  # it was pruned, or deleted
            self.clients.counts["turns that were continued too late"] += 1
            return None
        return self.clients.finish(turn)

    async def tool_loop(self) -> None:
        """Have the model call a tool, return the tool's output, and get an answer."""
        first = await self.run_turn(self._turn("call"))
        self.clients.finish(first)
        output = (first.response or {}).get("output") or ()
        calls = [item for item in output if item["type"] == "function_call"]
        if first.outcome != "completed" or len(calls) != 1:
            return
        turn = self._turn("text")
        result = {"type": "function_call_output", "call_id": calls[0]["call_id"]}
        result["output"] = turn.directions.prompt
        turn.model = first.model
        turn = await self.run_turn(
            turn, input=[result], previous_response_id=first.id, tools=turn_tools(first)
        )
        if turn.code == "previous_response_not_found" and self._is_store_in_trouble(first):
            return
        self.clients.finish(turn)

    def _is_store_in_trouble(self, turn: SeenTurn) -> bool:
        return "store" in self.clients.site.troubles(turn.began)

    async def conversation(self) -> None:
        async with self.clients.request("POST", "/v1/conversations", json={}) as answer:
            body = await answer.json()
            if answer.status != 200:
                return self._expect_store(answer.status, body, "a conversation")
        for _ in range(self.random.randint(1, 3)):
            turn = await self.run_turn(self._turn(), conversation=body["id"])
            self.clients.finish(turn)
        async with self.clients.request("GET", f"/v1/conversations/{body['id']}/items") as answer:
            await answer.read()
        if self.random.random() < 0.7:
            async with self.clients.request("DELETE", f"/v1/conversations/{body['id']}") as answer:
                await answer.read()
        return None

    def _expect_store(self, status: int, body: Json, what: str) -> None:
        """A refusal is right only while the store has failed."""
        if "store" not in self.clients.site.troubles(monotonic()):
            self.clients.report(f"{what}: {status} {body}")

    # Turns that are stopped

    async def cancel(self) -> None:
        """Cancel a turn while it is streamed, at a random place."""
        turn = self._turn("text", words=40, gap_ms=20)
        await self.cancel_turn(turn, self.random.uniform(0, 0.8))
        self.clients.finish(turn)

    async def cancel_turn(self, turn: SeenTurn, after: float) -> None:
        """Stream a turn, and cancel it some seconds after it has begun."""
        turn.may_be_stopped = True
        reading = asyncio.create_task(self.run_turn(turn))
        try:
            while not (turn.id or reading.done()):
                await asyncio.sleep(_LOOK)
            await asyncio.sleep(after)
            if turn.id:
                async with self.clients.request("POST", f"/v1/responses/{turn.id}/cancel") as answer:
                    await answer.read()
                    self.clients.counts[f"cancels with {answer.status}"] += 1
            await reading
        finally:
            reading.cancel()

    async def disconnect(self) -> None:
        turn = self._turn(self.random.choice(("text", "text", "reasoning", "stall")), words=30, gap_ms=10)
        store = self.random.random() < 0.6
        turn = await self.run_turn(turn, stop_after=self.random.randint(1, 25), store=store)
        self.clients.finish(turn, is_stored=store)

    async def disconnect_at_once(self) -> None:
        """Send a request and leave before its answer."""
        body = self._turn("silence" if self.random.random() < 0.5 else "text").body(
            stream=self.random.random() < 0.5
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(self.random.uniform(0.001, 0.2)):
                async with self.clients.request("POST", "/v1/responses", json=body) as answer:
                    await answer.read()

    async def vanish_in_a_request(self) -> None:
        """Open a connection, and disappear in the middle of the request."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.clients.site.port)
        request = b'POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5000\r\n\r\n{"model"'
        writer.write(request[: self.random.randint(0, len(request))])
        await asyncio.sleep(self.random.uniform(0, 0.5))
        writer.transport.abort()

    # Background

    async def background(self) -> None:
        """Start a turn in the background, poll it, and perhaps cancel it."""
        how = self.random.choice(("text", "text", "reset", "status-500"))
        turn = self._turn(how, words=20, gap_ms=20)
        turn.may_be_stopped = self.random.random() < 0.3
        turn = await self._whole(turn, background=True)
        if turn.may_be_stopped and turn.id:
            await asyncio.sleep(self.random.uniform(0, 0.5))
            async with self.clients.request("POST", f"/v1/responses/{turn.id}/cancel") as answer:
                await answer.read()
        while turn.id and not turn.outcome:
            await asyncio.sleep(_POLL)
            async with self.clients.request("GET", f"/v1/responses/{turn.id}") as answer:
                body = await answer.json()
                if answer.status == 200:
                    turn.response = body
                else:
                    self._expect_store(answer.status, body, f"polling {turn!r}")
        self.clients.finish(turn)

    async def resume(self) -> None:
        """Leave a turn that runs in the background, and read the rest with `starting_after`."""
        turn = self._turn("text", words=40, gap_ms=10)
        await self.run_turn(turn, stop_after=self.random.randint(1, 60), background=True)
        for _ in range(100):
            if turn.outcome or not turn.id:
                break
            path = f"/v1/responses/{turn.id}?stream=true&starting_after={len(turn.events) - 1}"
            self.clients.counts["resumes"] += 1
            async with self.clients.request("GET", path) as answer:
                if answer.status == 200:
                    turn.is_cut = False
                    again = self.random.randint(1, 20) if self.random.random() < 0.3 else 0
                    await self._read(turn, answer, again and len(turn.events) + again, is_resumed=True)
                else:
                    self._expect_store(answer.status, await answer.json(), f"resuming {turn!r}")
                    await asyncio.sleep(_POLL)
        self.clients.finish(turn)

    async def read_again(self) -> None:
        """Read an ended turn: its response, its input, and its events."""
        if not self.clients.recent:
            return
        began, id = monotonic(), self.random.choice(self.clients.recent)
        for path in (
            f"/v1/responses/{id}",
            f"/v1/responses/{id}/input_items",
            f"/v1/responses/{id}?stream=true",
        ):
            async with self.clients.request("GET", path) as answer:
                data = await answer.read()
                if answer.status == 404:  # pruned, or deleted by another client
                    self.clients.counts["turns that were read too late"] += 1
                elif answer.status != 200 and "store" not in self.clients.site.troubles(began):
                    self.clients.report(f"{path}: {answer.status} {data[:300]!r}")

    async def delete(self) -> None:
        if self.clients.recent:
            async with self.clients.request(
                "DELETE", f"/v1/responses/{self.clients.recent.popleft()}"
            ) as answer:
                await answer.read()

    async def repeat(self) -> None:
        """Send a request twice with one idempotency key: the turn runs once, unless it has failed, or its
        client has disconnected (decision 32)."""
        turn, again = self._turn("text"), self._turn("text")
        again.directions, again.model = turn.directions, turn.model
        headers = {"idempotency-key": f"{turn.directions.name}-{self.random.random()}"}
        ask = self.random.choice((self.run_turn, self._whole))
        pause = self.random.choice((0.0, 0.05, 0.3))

        async def ask_again() -> None:
            await asyncio.sleep(pause)
            await ask(again, headers=headers)

        await asyncio.gather(ask(turn, headers=headers), ask_again())
        if turn.outcome == again.outcome == "completed" and turn.id != again.id:
            self.clients.report(f"{turn!r} ran again as {again.id}")
        self.clients.finish(turn)
        self.clients.finish(again)

    # WebSocket

    async def websocket(self) -> None:
        """Several turns over one socket, each continuing the one before; perhaps leave in the middle."""
        headers = {"authorization": f"Bearer {KEY}", "x-penstock-accent": "openresponses"}
        is_abrupt = self.random.random() < 0.3
        began = monotonic()
        async with self.clients.session.ws_connect(
            f"{self.clients.site.base}/v1/responses", headers=headers, max_msg_size=0
        ) as socket:
            previous: Json = {}
            for number in range(turns := self.random.randint(1, 4)):
                how = self.random.choice(("text", "text", "text", "reset", "error-frame"))
                turn, store = self._turn(how), self.random.random() < 0.5
                leave = is_abrupt and number == turns - 1
                await socket.send_json({"type": "response.create", **turn.body(store=store, **previous)})
                await self._read_frames(turn, socket, self.random.randint(1, 20) if leave else 0)
                self.clients.finish(turn, is_stored=store)
                previous = {"previous_response_id": turn.id} if turn.outcome == "completed" else {}
                if leave or socket.closed:
                    break
            if socket.closed and not is_abrupt and "clients" not in self.clients.site.troubles(began):
                self.clients.report(f"the gateway has closed a WebSocket: {socket.close_code}")

    async def _read_frames(
        self, turn: SeenTurn, socket: aiohttp.ClientWebSocketResponse, stop_after: int
    ) -> None:
        checker = StreamChecker(transport="websocket", accent="openresponses")
        while not turn.outcome:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                turn.is_cut = True
                return
            event = json.loads(message.data)
            if event["type"] == "error" and not turn.events:
                turn.status = event["status"]
                turn.take_json(event)
                return
            turn.status = 200
            turn.violations += map(str, checker.feed_frame(None, message.data))
            turn.take_event(event)
            if stop_after and len(turn.events) >= stop_after and event["type"] not in TERMINAL:
                turn.is_cut = True
                return
        turn.violations += map(str, checker.end())

    # Limits and refusals

    async def limited(self) -> None:
        """A burst of turns with a key that has a limit: each ends, or is refused with the time to wait."""
        key = self.random.choice((RATE_KEY, NARROW_KEY, BUDGET_KEY, MINUTE_KEY))

        async def one() -> None:
            turn = self._turn("text", words=5)
            body = turn.body(stream=True)
            async with self.clients.request("POST", "/v1/responses", key=key, json=body) as answer:
                turn.status = answer.status
                if answer.status == 429:
                    error = (await answer.json())["error"]
                    self.clients.counts[f"refused: {error['code']}"] += 1
                    if "retry-after" not in answer.headers:
                        self.clients.report(f"a 429 without retry-after: {error}")
                    return
                if answer.status == 503 and key == BUDGET_KEY:  # the ledger has not answered within a second
                    self.clients.counts["refused: budget not known"] += 1
                    return
                if answer.status == 200:
                    await self._read(turn, answer)
                else:
                    turn.take_json(await answer.json())
            self.clients.finish(turn, is_stored=False)  # of another tenant

        await asyncio.gather(*(one() for _ in range(self.random.randint(1, 5))))

    async def bad_request(self) -> None:
        """A request that is wrong gets an error in the right shape."""
        method, path, options, expected = self.random.choice(_WRONG)
        self.last_request = f"{method} {path} {str(options)[:80]}"
        began = monotonic()
        async with self.clients.request(method, path, **options) as answer:
            data = await answer.read()
            is_away = answer.status == 503 and "store" in self.clients.site.troubles(began)
            if not (is_away or answer.status in expected) or b'"error"' not in data:
                self.clients.report(f"{method} {path}: {answer.status} {data[:200]!r}")

    # Readers

    async def slow_reader(self) -> None:
        """Read a long answer slowly, so that the gateway has to stop reading from the upstream."""
        turn = self._turn("text", words=1500, gap_ms=0)
        pause = self.random.uniform(0.005, 0.05)
        async with self.clients.request("POST", "/v1/responses", json=turn.body(stream=True)) as answer:
            turn.status = answer.status
            if answer.status != 200:
                turn.take_json(await answer.json())
            else:
                reader = StreamReader(turn)
                try:
                    while data := await answer.content.read(8192):
                        reader.feed(data)
                        await asyncio.sleep(pause)
                    reader.end()
                except (aiohttp.ClientError, OSError):
                    turn.is_cut = True
        self.clients.finish(turn)

    async def inspect(self) -> None:
        """What the page of the gateway and an operator ask for."""
        began = monotonic()
        path = self.random.choice(LISTS)
        async with self.clients.request("GET", path) as answer:
            data = await answer.read()
            if answer.status != 200 and "store" not in self.clients.site.troubles(began):
                self.clients.report(f"GET {path}: {answer.status} {data[:200]!r}")

    async def watch_feed(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.random.uniform(0.5, 4)):
                async with self.clients.request("GET", "/inspector/api/feed") as answer:
                    if answer.status != 200:
                        self.clients.report(f"the feed: {answer.status}")
                    async for data in answer.content.iter_any():
                        self.clients.counts["bytes of the feed"] += len(data)


def turn_tools(turn: SeenTurn) -> Any:
    return turn.body()["tools"]


LISTS = (
    "/v1/turns",
    "/v1/usage?by=key",
    "/v1/models",
    "/inspector/api/threads",
    "/inspector/api/dashboard",
    "/",
    "/healthz",
)
_BAD_KEY = {"key": "sk-wrong"}
_WRONG: tuple[tuple[str, str, dict[str, Any], tuple[int, ...]], ...] = (
    ("POST", "/v1/responses", {"data": b"{"}, (400,)),
    ("POST", "/v1/responses", {"json": {"model": "chat", "input": 7}}, (400,)),
    ("POST", "/v1/responses", {"json": {"model": "chat", "input": "x"}, **_BAD_KEY}, (401,)),
    ("POST", "/v1/responses", {"json": {"model": "nothing-like-it", "input": "x"}}, (400, 404)),
    ("POST", "/v1/responses", {"json": {"model": "chat", "previous_response_id": "resp_0"}}, (400, 404)),
    ("POST", "/v1/responses", {"data": b"x" * 900_000}, (413,)),
    ("GET", "/v1/responses", {}, (400, 404, 405, 426)),
    ("GET", "/v1/responses/resp_unknown", {}, (404, 503)),
    ("DELETE", "/v1/responses/resp_unknown", {}, (404, 503)),
    ("POST", "/v1/responses/resp_unknown/cancel", {}, (404, 503)),
    ("POST", "/v1/chat/completions", {"json": {}}, (400, 404)),
)

Action = Callable[[Client], Awaitable[None]]
ACTIONS: dict[Action, int] = {
    Client.stream: 20,
    Client.whole: 8,
    Client.unstored: 10,
    Client.failing: 12,
    Client.continued: 10,
    Client.tool_loop: 8,
    Client.conversation: 3,
    Client.cancel: 6,
    Client.disconnect: 8,
    Client.disconnect_at_once: 4,
    Client.vanish_in_a_request: 2,
    Client.background: 6,
    Client.resume: 6,
    Client.read_again: 4,
    Client.delete: 3,
    Client.repeat: 4,
    Client.websocket: 5,
    Client.limited: 4,
    Client.bad_request: 5,
    Client.slow_reader: 1,
    Client.inspect: 4,
    Client.watch_feed: 1,
}
"""What clients do, and how often."""
