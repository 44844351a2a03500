"""How many examples the properties try: a third of what they say, unless the run is to be thorough."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("PENSTOCK_PROFILE") == "thorough"


def examples(count: int) -> int:
    """`count` in a thorough run, a third of it in the fast one."""
    return count if THOROUGH else (count + 2) // 3
