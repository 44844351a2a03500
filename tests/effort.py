"""How many Hypothesis examples to run: a third of the full number, unless the run is thorough."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("PENSTOCK_PROFILE") == "thorough"


def examples(count: int) -> int:
    """Return `count` in a thorough run, a third of it in the fast suite."""
    return count if THOROUGH else (count + 2) // 3
