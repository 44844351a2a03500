"""Python imports this module at its start, in each process of a gateway of the soak. It adds no door to the
product: it lets the soak count objects, and set the clock, by signals.

- SIGRTMIN: write the number of objects of each type to `$PENSTOCK_SOAK/PID.json`.
- SIGRTMIN+1: read `$PENSTOCK_SOAK/clock`: by how many seconds the clock is ahead from now on.
- SIGRTMIN+2: return memory that is free to the system, and count as above.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

_folder = Path(os.environ["PENSTOCK_SOAK"])
_real, _real_ns = time.time, time.time_ns
_ahead = 0.0


def _count(*_: object) -> None:
    gc.collect()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    scratch = _folder / f"{os.getpid()}.part"
    scratch.write_text(json.dumps(types))
    scratch.rename(_folder / f"{os.getpid()}.json")


def _settle(*_: object) -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _count()


def _set_clock(*_: object) -> None:
    global _ahead
    _ahead = float((_folder / "clock").read_text())


time.time = lambda: _real() + _ahead
time.time_ns = lambda: _real_ns() + int(_ahead * 1_000_000_000)
signal.signal(signal.SIGRTMIN, _count)
signal.signal(signal.SIGRTMIN + 1, _set_clock)
signal.signal(signal.SIGRTMIN + 2, _settle)
