"""A gateway in the process of the test, and a client that calls it without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.demo.upstream import DemoUpstream
from penstock.dialects.plan import UpstreamRequest
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Limits, ModelRoute, RouteStep, Settings
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import Upstream, UpstreamTarget
from tests.gateway.fake_upstreams import ModelUpstream, Step
from tests.gateway.running import Reply, judge, judge_stream

Json = dict[str, Any]


SLOW = "Answer slowly, with 500 words."
"""For the demo model: long enough to be stopped."""


class Caller:
    """A client of a gateway in this process. `task` is what a server would run for its request."""

    def __init__(
        self,
        gateway: Gateway,
        path: str = "/v1/responses",
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        app: type[GatewayApp] = GatewayApp,
        **body: Any,
    ) -> None:
        self.gateway = gateway
        self.sent: list[Any] = []
        self._has_sent = asyncio.Event()
        self._messages: asyncio.Queue[Json] = asyncio.Queue()
        if data is None:
            data = json.dumps({"model": "demo", **body}).encode() if method == "POST" else b""
        self._messages.put_nowait({"type": "http.request", "body": data, "more_body": False})
        path, _, query = path.partition("?")
        named = {"host": "127.0.0.1", "content-type": "application/json", **(headers or {})}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
        self.task = asyncio.ensure_future(app(gateway)(scope, self._messages.get, self._send))

    async def _send(self, message: Any) -> None:
        for _ in range(5):  # a write that waits is one that can be interrupted
            await asyncio.sleep(0)
        self.sent.append(message)
        self._has_sent.set()

    def disconnect(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Json:
        error: Json = self.json["error"]
        return error

    @property
    def events(self) -> list[Json]:
        """The events of a stream, checked against every rule."""
        return judge_stream(self.body)

    @property
    def response(self) -> Json:
        """The response of the terminal event."""
        response: Json = self.events[-1]["response"]
        return response

    @property
    def text(self) -> str:
        return "".join(
            part.get("text", "") for item in self.response["output"] for part in item.get("content") or []
        )

    @property
    def id(self) -> str:
        """The id of the response, as soon as its first event was received."""
        return self.body.partition(b'"id":"')[2].partition(b'"')[0].decode()

    async def runs(self) -> None:
        """Wait until the turn runs, and something of it was sent where it is streamed."""
        while not len(self.gateway.turns) or (not self.body and not self.task.done()):
            await asyncio.sleep(0.01)

    async def received(self, word: bytes) -> None:
        """Wait until the client has received this."""
        async with asyncio.timeout(10):
            while word not in self.body:
                self._has_sent.clear()
                await self._has_sent.wait()


async def call(gateway: Gateway, path: str = "/v1/responses", **options: Any) -> Caller:
    """A request, answered."""
    caller = Caller(gateway, path, **options)
    await caller.task
    return caller


def chain(*upstreams: Upstream, model: str = "m", **settings: Any) -> Settings:
    """Settings with one model that these upstreams answer, in this order."""
    steps = tuple(RouteStep(each.name, f"{model}-at-{each.name}") for each in upstreams)
    return Settings(models={model: ModelRoute(name=model, steps=steps)}, **settings)


class LocalGateway:
    """A gateway in this process. It has the same interface as one in a separate process (`Running`).

    The targets are named after their dialects: `over-anthropic` and `over-responses` are models of two of
    them, and every other name is a model of the target `chat`.
    """

    def __init__(self) -> None:
        self.upstreams = {name: ModelUpstream(name, name) for name in ("chat", "anthropic", "responses")}
        self._runner = asyncio.Runner()
        routes = {
            f"over-{name}": ModelRoute(name=f"over-{name}", steps=(RouteStep(name, f"over-{name}"),))
            for name in ("anthropic", "responses")
        }
        targets = tuple(
            UpstreamTarget(name=name, base_url="http://127.0.0.1:9/v1", dialect=name)
            for name in self.upstreams
        )
        settings = Settings(
            targets=targets, models=routes, passthrough="chat", limits=Limits(retries=0, patience=60)
        )

        async def start() -> Gateway:
            gateway = Gateway(settings, store=MemoryStore())
            known: dict[str, Upstream] = {DEMO: DemoUpstream(pace=0), **self.upstreams}
            gateway.services = Services(settings, known, gateway.metrics, TokenCounter())
            return gateway

        self._gateway = self._runner.run(start())

    def upstream_of(self, model: str) -> ModelUpstream:
        return self.upstreams[model.removeprefix("over-") if model.startswith("over-") else "chat"]

    def play(self, model: str, *steps: Step) -> str:
        return self.upstream_of(model).play(model, *steps)

    def sent_to(self, model: str) -> list[UpstreamRequest]:
        """What was sent to the upstream for this model."""
        requests = self.upstream_of(model).requests
        return [request for request in requests if request.body["model"] == model]

    def ask(
        self,
        body: Json | bytes | None = None,
        path: str = "/v1/responses",
        *,
        method: str = "POST",
        accent: str = "openresponses",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request, and its answer, checked."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def ask() -> Caller:
            return await call(self._gateway, path, method=method, headers=headers, data=data)

        caller = self._runner.run(ask())
        return judge(caller.status, caller.headers, caller.body, accent)

    def stream(self, model: str, prompt: Any = "Hi", **fields: Any) -> Reply:
        return self.ask({"model": model, "input": prompt, "stream": True, **fields})

    def whole(self, model: str, prompt: Any = "Hi", **fields: Any) -> Reply:
        return self.ask({"model": model, "input": prompt, **fields})

    def close(self) -> None:
        self._runner.run(self._gateway.aclose())
        self._runner.close()


def with_gateway(
    test: Callable[[Gateway], Awaitable[None]],
    *upstreams: Upstream,
    settings: Settings | None = None,
    store: Store | None = None,
) -> None:
    """Run a test against a gateway with these upstreams, which answer the model `m` one after the other."""

    async def run() -> None:
        configured = settings or (chain(*upstreams) if upstreams else Settings())
        gateway = Gateway(configured, store=store or MemoryStore())
        if upstreams:
            known = {DEMO: DemoUpstream(pace=0), **{each.name: each for each in upstreams}}
            gateway.services = Services(configured, known, gateway.metrics, TokenCounter())
        await test(gateway)
        assert len(gateway.turns) == 0
        assert gateway.services.idle.is_set()
        await gateway.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
