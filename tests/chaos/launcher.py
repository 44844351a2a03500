"""Starts `penstock` with faults of its own: a wrong clock.

    python launcher.py serve [options]

`CHAOS_CLOCK` is how many seconds the clock of this process is ahead.
"""

from __future__ import annotations

import os
import sys
import time

_ahead = float(os.environ.get("CHAOS_CLOCK", "0"))
_real, _real_ns = time.time, time.time_ns
time.time = lambda: _real() + _ahead
time.time_ns = lambda: _real_ns() + int(_ahead * 1_000_000_000)


def _run() -> int:
    from penstock.cli import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_run())
