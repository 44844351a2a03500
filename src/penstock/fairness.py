"""Sharing the event loop: long work runs in slices of a few milliseconds, or in a thread.

Parsing or rendering a request of several megabytes would delay every other client noticeably. A thread
returns the interpreter to the loop every few milliseconds. A typical request stays on the loop, because a
thread would cost more than the work itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, ParamSpec, TypeVar

from penstock.protocol.large_json import encode_in_pieces

P = ParamSpec("P")
T = TypeVar("T")

SLICE = 0.004
"""Seconds of work after which other streams of the process may run."""


class WorkSlice:
    """Measures how long work has occupied the event loop since other tasks last ran."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self._began >= SLICE

    def restart(self) -> None:
        """Restart the measurement, because other tasks ran while this one awaited something."""
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Let other tasks run if the slice is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self.restart()


async def encode_large(value: Any) -> bytes:
    """Encode a value that may contain very long strings as JSON, without blocking other streams."""
    work = WorkSlice()
    document = BytesIO()  # grows in place, and returns its content without a copy
    for piece in encode_in_pieces(value):
        document.write(piece)
        await work.pause()
    return document.getvalue()


HEAVY = 256 * 1024
"""The weight from which work runs in a thread. Lighter work takes a few milliseconds."""

ITEM_WEIGHT = 256
"""The weight of an item or a tool in addition to its bytes. For small ones it dominates."""

_OBJECT_WEIGHT = 64
_REFERENCE_WEIGHT = 16 * 1024
"""References in schemas multiply: a few of them can be as much work as a large request."""
_FEW_BYTES = 16 * 1024

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="penstock-heavy")
"""A separate pool, so that heavy requests cannot use up the threads of other work. The threads share one
interpreter lock, so more of them would not be faster. They start with the first heavy request."""


def weight_of(body: bytes | str) -> int:
    """Return the weight of a request: its bytes, plus an extra for each object and each reference in it."""
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    weight = len(body)
    if weight > _FEW_BYTES:
        weight += _OBJECT_WEIGHT * _objects_in(body)
    if b"$" in body:  # a single byte is much faster to search for
        weight += _REFERENCE_WEIGHT * body.count(b'"$ref"')
    return weight


def _objects_in(body: bytes) -> int:
    if len(body) >= HEAVY:
        return body.count(b"{")
    # Five times as fast, at the price of a copy: every request of a coding agent is counted here.
    return len(body) - len(body.replace(b"{", b""))


async def run_heavy(weight: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function; from a weight of `HEAVY` on, in a thread. The function must not use objects that
    belong to the event loop, and nothing else may change its arguments while it runs.

    If the caller is cancelled, a function that has not started never runs, and the result of a running one
    is dropped.
    """
    if weight < HEAVY:
        return function(*args, **kwargs)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, partial(function, *args, **kwargs))
