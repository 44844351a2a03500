"""A real gateway that is attacked, with upstreams in every dialect, and what must hold after every attack."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.client.server import Connection, Script, Step, head, in_a_thread
from tests.gateway.probes import Memory
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed

MIB = 1024 * 1024
HARMLESS = "harmless"
"""The model that answers as always."""

CONFIG = """
passthrough = "chat"
[limits]
retries = 0
patience = 1
client_timeout = {client_timeout}
output_items = 2000
{limits}
[targets.chat]
base_url = "{url}/v1"
[targets.anthropic]
base_url = "{url}/v1"
dialect = "anthropic"
[targets.responses]
base_url = "{url}/v1"
dialect = "responses"
[models.over-anthropic]
target = "anthropic"
[models.over-responses]
target = "responses"
"""


@dataclass
class Attacked:
    """The gateway and its upstream."""

    running: Running
    upstream: ScriptedUpstream
    log: Path

    def ask(
        self, body: bytes, path: str = "/v1/responses", *, method: str = "POST", **headers: str
    ) -> tuple[int, bytes]:
        """One request, and the status and body of its answer, which may be of any size."""
        connection = self.running.connect()
        connection.timeout = 60
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"content-type": "application/json", **named})
            return _read(connection)
        finally:
            connection.close()

    def turn(self, model: str, *, stream: bool = True) -> tuple[int, bytes]:
        return self.ask(json.dumps({"model": model, "input": "x", "stream": stream}).encode())

    def memory(self) -> Memory:
        return Memory(self.running)

    def is_unharmed(self) -> bool:
        """Return whether it answers a normal request, and has logged neither an error nor a stack trace.
        Every line of the log must be JSON."""
        status, body = self.turn(HARMLESS, stream=False)
        logged = self.log.read_text()
        return (
            status == 200
            and b"as always" in body
            and "Traceback" not in logged
            and not any(line["level"] == "error" for line in self.running.log)
        )


def _read(connection: http.client.HTTPConnection) -> tuple[int, bytes]:
    answer = connection.getresponse()
    return answer.status, answer.read()


@contextmanager
def attacked(
    folder: Path,
    *,
    limits: str = "",
    client_timeout: float = 300,
    through: tuple[str, ...] = (),
    faults: tuple[str, ...] = (),
) -> Iterator[Attacked]:
    with in_a_thread(upstream := ScriptedUpstream()):
        upstream.play(HARMLESS, streamed(*said("as always")))
        config = CONFIG.format(url=upstream.url, limits=limits, client_timeout=client_timeout)
        with gateway(folder, config=config, through=through, faults=faults) as running:
            yield Attacked(running, upstream, folder / "log")


def error_of(body: bytes) -> dict[str, Any]:
    """The error of a response, in the specification's shape."""
    error: dict[str, Any] = json.loads(body)["error"]
    assert {"message", "type", "param", "code"} <= error.keys()
    return error


def last_event(body: bytes) -> dict[str, Any]:
    """The last event of a stream, which ends as every stream does."""
    assert body.endswith(b"data: [DONE]\n\n")
    event: dict[str, Any] = json.loads(body.split(b"\n\n")[-3].partition(b"\ndata: ")[2])
    return event


def sends(pieces: Callable[[], Iterator[bytes]], head: bytes = head()) -> Script:
    """An upstream that sends these pieces as long as they are read."""

    async def step(connection: Connection) -> None:
        try:
            connection.writer.write(head)
            for piece in pieces():
                connection.writer.write(piece)
                await connection.writer.drain()
        except OSError:
            pass

    steps: list[Step] = [step]
    return steps


def sse(*chunks: Any) -> bytes:
    return b"".join(
        b"data: " + (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n\n"
        for each in chunks
    )
