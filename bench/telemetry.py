"""CPU time of a turn with and without OpenTelemetry: `python -m bench.telemetry`.

Whole turns of a gateway in this process, with a short answer of the built-in model, so that what is added
weighs most. The time of an export is measured apart, and its share added to that of a turn. The collector is
a process of its own. The variants take turns, a few milliseconds each, and the best of many counts, because a
busy machine only makes them slower.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Settings, TelemetrySettings
from penstock.gateway.telemetry.logs import set_up
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter

ROUNDS, SAMPLES, TURNS = 20, 30, 10
"""Rounds with gateways of their own, samples of each variant in a round, turns of a sample."""
_SETTLE = 0.004
"""Seconds after a sample, in which threads finish their work."""
RESULT = Path(__file__).parent / "results" / "telemetry.json"
VARIANTS: dict[str, TelemetrySettings] = {
    "off": TelemetrySettings(),
    "on": TelemetrySettings(enabled=True),
    "on, with content": TelemetrySettings(enabled=True, content=True),
}
UNSAMPLED = "on, not sampled"
BODY = json.dumps({"model": "demo", "input": "say exactly: hi", "stream": True, "store": False}).encode()
SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/v1/responses",
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
}


async def turn(app: GatewayApp) -> None:
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": BODY, "more_body": False})

    async def send(_: Any) -> None:
        pass

    await app(SCOPE, messages.get, send)


class Variant:
    """One way to run a gateway, and its best times in microseconds of CPU time."""

    def __init__(self, telemetry: TelemetrySettings, environment: dict[str, str]) -> None:
        self._settings, self._environment = Settings(telemetry=telemetry), environment
        self._turn = self._export = float("inf")
        self._gateway: Gateway
        self._app: GatewayApp

    @property
    def cost(self) -> float:
        """What a turn costs with its share of an export."""
        return self._turn + self._export

    def open(self) -> None:
        settings = self._settings
        self._gateway = Gateway(settings, store=MemoryStore(), environment=self._environment)
        upstreams = {DEMO: DemoUpstream(pace=0)}
        self._gateway.services = Services(settings, upstreams, self._gateway.metrics, TokenCounter())
        self._app = GatewayApp(self._gateway)

    async def sample(self) -> None:
        began = process_time()
        for _ in range(TURNS):
            await turn(self._app)
        await asyncio.sleep(_SETTLE)
        self._turn = min(self._turn, (process_time() - began) / TURNS * 1e6)

    async def export(self) -> None:
        """Close the gateway, which exports the spans of all samples."""
        began = process_time()
        await self._gateway.aclose()
        self._export = min(self._export, (process_time() - began) / TURNS / SAMPLES * 1e6)


async def rounds(url: str) -> dict[str, float]:
    """Return the microseconds of a turn in each variant."""
    # Nothing is exported before the end.
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": "3600000",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": str(3 * TURNS * SAMPLES),
        "OTEL_BSP_MAX_QUEUE_SIZE": str(3 * TURNS * SAMPLES),
    }
    variants = {name: Variant(each, environment) for name, each in VARIANTS.items()}
    variants[UNSAMPLED] = Variant(VARIANTS["on"], {**environment, "OTEL_TRACES_SAMPLER": "always_off"})
    for _ in range(ROUNDS):
        for variant in variants.values():
            variant.open()
        for _ in range(SAMPLES):
            for variant in random.sample(
                list(variants.values()), len(variants)
            ):  # none always follows another
                await variant.sample()
        for variant in variants.values():
            await variant.export()
    return {name: variant.cost for name, variant in variants.items()}


async def collect(listening: socket.socket) -> None:
    """Accept every request, until the process is ended."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, sock=listening)
    await server.serve_forever()


def main() -> int:
    if len(sys.argv) > 1:
        asyncio.run(collect(socket.socket(fileno=int(sys.argv[1]))))
    with Path(os.devnull).open("w") as nowhere, socket.create_server(("127.0.0.1", 0)) as listening:
        set_up("info", nowhere)
        command = [sys.executable, "-m", "bench.telemetry", str(listening.fileno())]
        collector = subprocess.Popen(command, pass_fds=[listening.fileno()])
        try:
            best = asyncio.run(rounds(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        finally:
            collector.kill()
            collector.wait()
    result = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "samples": ROUNDS * SAMPLES,
        "turns": TURNS,
        "microseconds": {name: round(each) for name, each in best.items()},
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    for name, each in best.items():
        print(f"{name:<20} {each / 1000:.2f} ms, {each / best['off']:.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
