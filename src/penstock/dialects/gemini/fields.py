"""Fields of Gemini's JSON. Its servers write `camelCase`; dumps of its SDK's objects are `snake_case`."""

from __future__ import annotations

import re
from functools import cache
from typing import Any


def field(value: dict[str, Any], name: str) -> Any:
    """The field of this `camelCase` name, in either spelling; None if it is absent or null."""
    found = value.get(name)
    return value.get(_snake(name)) if found is None else found


@cache
def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()
