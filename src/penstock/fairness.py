"""Sharing the event loop, so that one large request does not keep other clients waiting.

Work in pieces lets the others run after a few milliseconds (`WorkSlice`). Work in one piece, such as reading
or rendering a request of megabytes, runs in a thread, which gives the interpreter back to the loop every few
milliseconds (`run_heavy`). A usual request stays on the loop: a thread would cost it more than the work does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, ParamSpec, TypeVar

from penstock.protocol.large import encode_in_pieces

P = ParamSpec("P")
T = TypeVar("T")

SLICE = 0.004
"""Seconds of work after which the other streams of the process have their turn."""


class WorkSlice:
    """Work on the event loop since it last served others."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self._began >= SLICE

    def restart(self) -> None:
        """The loop has just served others, because there was something to wait for."""
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Let the others run, if it is time."""
        if self.is_over:
            await asyncio.sleep(0)
            self.restart()


async def encode_large(value: Any) -> bytes:
    """The JSON of a value that may hold very long texts; other streams go on meanwhile."""
    work = WorkSlice()
    document = BytesIO()  # it grows in place, and gives its content away without a copy
    for piece in encode_in_pieces(value):
        document.write(piece)
        await work.pause()
    return document.getvalue()


HEAVY = 256 * 1024
"""The weight from which work goes to a thread. What weighs less takes a few milliseconds."""

ITEM_WEIGHT = 256
"""What an item or a tool weighs besides its bytes: the work on a small one is mostly this."""

_OBJECT_WEIGHT = 64
_REFERENCE_WEIGHT = 16 * 1024
"""References in schemas multiply: a few can be as much work as a large request."""
_FEW_BYTES = 16 * 1024

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="penstock-heavy")
"""Of its own, so that heavy requests cannot use up the threads that others need. They share one processor, so
more of them would not be faster. They are started with the first heavy request."""


def weight_of(body: bytes | str) -> int:
    """What a request weighs: its bytes, and more for each object and each reference in it."""
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    weight = len(body)
    if weight > _FEW_BYTES:
        weight += _OBJECT_WEIGHT * body.count(b"{")
    if b"$" in body:  # much quicker to look for than the word
        weight += _REFERENCE_WEIGHT * body.count(b'"$ref"')
    return weight


async def run_heavy(weight: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function returns, or raises. From `HEAVY` on it runs in a thread, so it must not touch what
    belongs to the event loop, and nothing else may change its arguments meanwhile.

    If the caller is cancelled, a function that has not begun is not run, and the result of one that runs is
    dropped when it ends.
    """
    if weight < HEAVY:
        return function(*args, **kwargs)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, partial(function, *args, **kwargs))
