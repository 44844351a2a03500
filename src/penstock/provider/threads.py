"""Plain functions beside an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a thread of its own, which nobody has to wait for.

    A pool has room for a few, and a function that hangs in one would keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else give(value))

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            settle(done.set_exception, error)
        except BaseException as error:  # `sys.exit` in a tool ends the tool
            told = RuntimeError(f"the tool ended with {type(error).__name__}: {error}")
            settle(done.set_exception, told)
        else:
            settle(done.set_result, result)

    threading.Thread(target=copy_context().run, args=(run,), name="penstock tool", daemon=True).start()
    return done
