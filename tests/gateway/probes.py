"""What a test can observe of a running gateway: its health, metrics, log, memory and connections."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Self

from tests.gateway.running import Running


class HealthPoller:
    """Requests `/healthz` repeatedly, one request at a time, to measure how long other clients wait."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.answers: list[float] = []
        """When each answer came."""

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self.answers:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _poll(self) -> None:
        connection = self._running.connect()
        connection.timeout = 300
        while not self._done.is_set():
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
            self.answers.append(time.monotonic())
            time.sleep(0.002)
        connection.close()

    def count(self, began: float, ended: float) -> int:
        """The number of answers in this period."""
        return sum(began < each < ended for each in self.answers)

    def longest_gap(self, began: float, ended: float) -> float:
        """The longest time between two answers in this period."""
        within = [began, *(each for each in self.answers if began < each < ended), ended]
        return max(later - earlier for earlier, later in pairwise(within))


class Memory:
    """The memory that the gateway's process uses beyond what it had."""

    def __init__(self, running: Running) -> None:
        self._status = Path(f"/proc/{running.process.pid}/status")
        Path(f"/proc/{running.process.pid}/clear_refs").write_text("5")  # the peak is counted from here
        self._before = self._read("VmRSS")

    def peak(self) -> int:
        return self._read("VmHWM") - self._before

    def now(self) -> int:
        return self._read("VmRSS") - self._before

    def _read(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", self._status.read_text())
        assert found
        return int(found[1]) * 1024


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


def memory_of(running: Running) -> int:
    """Resident bytes."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def gauge(running: Running, name: str) -> float:
    text = running.ask(path="/metrics", method="GET").body.decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def refuses(running: Running) -> bool:
    connection = running.connect()
    try:
        connection.connect()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # it was waiting to be accepted when the socket was closed
    finally:
        connection.close()
    return False


def has_logged(running: Running, words: str) -> bool:
    return any(words in line["message"] for line in running.log)


def connections(running: Running) -> int:
    port = f":{running.address.port:04X}"
    lines = Path(f"/proc/{running.process.pid}/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)


def kill(running: Running) -> None:
    running.process.kill()
    running.process.wait(10)
