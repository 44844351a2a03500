"""The servers under test, as processes: the gateway, the reference line, and agentic-api."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from bench.lab.bodies import body_for
from bench.lab.instruments import SERVER, LabError, Load, family, load, set_priority

ROOT = Path(__file__).parent.parent.parent
CACHE = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock")
AGENTIC = "0.9.0"
PATIENCE = 30.0
"""Seconds until a server must have answered."""


@dataclass
class Server:
    """A running server."""

    name: str
    port: int
    pids: list[int] = field(default_factory=list)
    fields: Mapping[str, object] = field(default_factory=dict)
    """What every request to it must contain."""
    seconds_to_first_answer: float = 0.0

    def load(self, spec: str, *options: object, **fields: object) -> Load:
        """Have it answer requests for a scripted model."""
        return load(self.port, self.pids, spec, body_for(spec, **self.fields, **fields), *options)

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Give it a real-time priority while times are measured, so that other programs matter less."""
        set_priority(self.pids, SERVER)
        try:
            yield
        finally:
            set_priority(self.pids, 0)


Running = AbstractContextManager[Server]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(server: Server, command: list[str], folder: Path, **environment: str) -> Iterator[Server]:
    """Start a server and wait for its first complete answer."""
    began = monotonic()
    with (folder / f"{server.name}-{server.port}.log").open("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environment}
        )
        try:
            while not _answers(server):
                if process.poll() is not None or monotonic() - began > PATIENCE:
                    log.seek(0)
                    raise LabError(f"{server.name} did not start:\n{log.read()[-2000:]}")
                sleep(0.005)
            server.seconds_to_first_answer = monotonic() - began
            server.pids = family(process.pid)
            yield server
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _answers(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    except OSError:
        return False
    return server.load("fake-c4", "-X", 10).good == 1


def gateway(
    folder: Path,
    upstream: str,
    *,
    store: str = "none",
    checkout: Path = ROOT,
    name: str = "penstock",
    config: Path | None = None,
    workers: int = 1,
    redis: str = "",
) -> Running:
    """Run a checkout's gateway in its own environment, or in this one if it has none."""
    own = checkout / ".venv" / "bin" / "python"
    port = free_port()
    where = ["--config", str(config)] if config else ["--upstream", upstream]
    options = [*where, "--port", str(port), "--store", store, "--log-level", "error"]
    if workers > 1:
        options += ["--workers", str(workers)]
    command = [str(own) if own.exists() else sys.executable, "-m", "penstock", "serve", *options]
    # The checkout's source goes first, because an environment may belong to another checkout.
    fields = {"store": False} if store == "none" else {}
    environment = {"PYTHONPATH": str(checkout / "src"), **({"PENSTOCK_REDIS": redis} if redis else {})}
    return running(Server(name, port, fields=fields), command, folder, **environment)


def floor(folder: Path, upstream: str) -> Running:
    """Run the reference line."""
    port = free_port()
    command = [
        sys.executable,
        str(Path(__file__).with_name("floor.py")),
        str(port),
        upstream.rpartition(":")[2],
    ]
    return running(Server("floor", port), command, folder)


def agentic(folder: Path, upstream: str) -> Running:
    """Run agentic-api, which relays the Responses API. It is installed if it is missing."""
    server = _installed_agentic()
    port = free_port()
    options = ["--llm-api-base", upstream, "--gateway-host", "127.0.0.1", "--gateway-port", str(port)]
    command = [str(server), *options, "--skip-llm-ready-check"]
    return running(Server("agentic", port, fields={"store": False}), command, folder)


def _installed_agentic() -> Path:
    place = CACHE / "bench" / f"agentic-api-{AGENTIC}"
    server = place / "bin" / "agentic-server"
    if not server.exists():
        venv.create(place, with_pip=True)
        command = [str(place / "bin" / "pip"), "install", "--quiet", f"agentic-api=={AGENTIC}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode or not server.exists():
            raise LabError(f"agentic-api {AGENTIC} cannot be installed:\n{done.stderr[-500:]}")
    return server
