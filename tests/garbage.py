"""The garbage collector in tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect now, and not again until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
