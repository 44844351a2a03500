"""Turns that probe a target: through a gateway in this process, with the code that production runs.

The gateway has only the probed target, without retries that would hide a fault, and an in-memory store.
Every stream is checked for lawfulness.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.application import open_app
from penstock.gateway.app import GatewayApp
from penstock.gateway.settings import DEMO, ModelRoute, RouteStep, Settings, TelemetrySettings
from penstock.gateway.storage import NONE
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import JsonObject
from penstock.protocol.events import TERMINAL
from penstock.sse import CONTENT_TYPE, Decoder
from penstock.stream.checker import StreamChecker
from penstock.upstream.target import UpstreamTarget

_NAME = "probed"
"""The name of the model in the gateway. The upstream's own name could be that of the built-in model."""
_CLOSING = 5.0
"""Seconds that a turn has to end after its client disconnected."""


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What a client of the gateway received."""

    response: JsonObject = {}
    """The response in the terminal event; empty if there was none."""
    code: str = ""
    """The code of the error; empty if the turn did not fail."""
    message: str = ""
    deltas: int = 0
    """Pieces of output."""
    arrivals: int = 0
    """How many times something of the output arrived."""
    violations: tuple[str, ...] = ()
    """The rules that the stream breaks."""

    @property
    def output(self) -> list[JsonObject]:
        return objects_of(self.response.get("output"))

    @property
    def text(self) -> str:
        parts = [part for item in self.output for part in objects_of(item.get("content"))]
        return "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")

    @property
    def usage(self) -> JsonObject:
        return object_of(self.response.get("usage"))

    @property
    def diagnostics(self) -> list[str]:
        return [text_of(each.get("code")) for each in objects_of(self.response.get("diagnostics"))]

    def items(self, type: str) -> list[JsonObject]:
        return [item for item in self.output if item.get("type") == type]


class ProbeGateway:
    """A gateway with one model. Use `open_probe_gateway`."""

    def __init__(self, app: GatewayApp, model: str, patience: float) -> None:
        self._app, self._model, self._patience = app, model, patience

    async def turn(self, **fields: Any) -> ProbeResult:
        """Run one streamed turn; if it takes too long, end it as a failure."""
        request = {"model": self._model, "stream": True, "store": False, **fields}
        caller = _Caller(msgspec.json.encode(request))
        task = asyncio.ensure_future(self._app(_SCOPE, caller.messages.get, caller.receive))
        try:
            done, _ = await asyncio.wait([task], timeout=self._patience)
            if not done:
                caller.disconnect()
                await asyncio.wait([task], timeout=_CLOSING)
                message = f"there was no complete answer after {self._patience:g} seconds"
                return ProbeResult(code="upstream_timeout", message=message)
            return caller.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def open_probe_gateway(
    settings: Settings,
    target: UpstreamTarget | None,
    model: str,
    *,
    patience: float,
    environment: Mapping[str, str],
) -> AsyncIterator[ProbeGateway]:
    """Open a gateway for one model of a target; without a target, for the built-in model."""
    name = DEMO if target is None else _NAME
    routes = {} if target is None else {name: ModelRoute(name=name, steps=(RouteStep(target.name, model),))}
    probing = replace(
        settings,
        targets=() if target is None else (target,),
        models=routes,
        aliases={},
        passthrough="",
        default_model="",
        overrides=(),
        keys=(),
        store=NONE,
        record=False,
        telemetry=TelemetrySettings(),  # these are no turns of a client
        limits=replace(settings.limits, retries=0),
    )
    app = await open_app(probing, environment=environment)
    try:
        yield ProbeGateway(app, name, patience)
    finally:
        await app.gateway.aclose()


_SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/responses",
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
}


class _Caller:
    """The client of one request: reads and checks the stream while it arrives."""

    def __init__(self, body: bytes) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self._is_stream = False
        self._body = b""
        self._decoder, self._checker = Decoder(), StreamChecker()
        self._deltas = self._arrivals = 0
        self._violations: list[str] = []
        self._last: JsonObject = {}

    def disconnect(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})

    async def receive(self, message: Any) -> None:
        """Take a message of the gateway."""
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._is_stream = headers.get(b"content-type", b"").startswith(CONTENT_TYPE.encode())
        elif self._is_stream:
            self._read(message.get("body", b""))
        else:
            self._body += message.get("body", b"")

    def _read(self, data: bytes) -> None:
        deltas = self._deltas
        for frame in self._decoder.feed(data):
            self._violations += map(str, self._checker.feed_frame(frame.event, frame.data))
            self._deltas += (frame.event or "").endswith(".delta")
            if frame.event in TERMINAL:
                self._last = object_of(msgspec.json.decode(frame.data))
        self._arrivals += self._deltas > deltas

    def result(self) -> ProbeResult:
        if not self._is_stream:
            error = object_of(object_of(msgspec.json.decode(self._body or b"null")).get("error"))
            code = text_of(error.get("code")) or "server_error"
            return ProbeResult(code=code, message=text_of(error.get("message")))
        self._violations += map(str, self._checker.end())
        response = object_of(self._last.get("response"))
        error = object_of(response.get("error"))
        return ProbeResult(
            response=response,
            code=text_of(error.get("code")),
            message=text_of(error.get("message")),
            deltas=self._deltas,
            arrivals=self._arrivals,
            violations=tuple(self._violations),
        )
