"""Programs of a site, as processes of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.running import Running

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}:/usr/sbin"
"""With the `penstock` of this environment, and the servers that Debian installs for root."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Replace names of a file; each must occur."""
    for name, value in values.items():
        assert name in text, name
        text = text.replace(name, value)
    return text


@contextmanager
def program(
    words: list[str],
    port: int,
    folder: Path,
    environment: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
) -> Iterator[Running]:
    """Run a server until the end of the block, and wait until it accepts connections."""
    log = folder / f"{host}-{port}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        for _ in range(1000):
            assert process.poll() is None, log.read_text()
            with socket.socket() as client:
                if client.connect_ex((host, port)) == 0:
                    break
            time.sleep(0.02)
        else:
            raise AssertionError(log.read_text())
        yield Running(process, f"http://{host}:{port}", log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
