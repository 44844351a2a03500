"""Another client of a gateway, which sees how long everybody else has to wait."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Self

from tests.gateway.running import Running


class HealthPoller:
    """Asks for the gateway's health again and again, one request at a time."""

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
        """The answers while something else was done."""
        return sum(began < each < ended for each in self.answers)

    def longest_gap(self, began: float, ended: float) -> float:
        """Between two answers while something else was done."""
        within = [began, *(each for each in self.answers if began < each < ended), ended]
        return max(later - earlier for earlier, later in pairwise(within))
