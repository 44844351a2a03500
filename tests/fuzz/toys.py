"""Small targets with known faults."""

from __future__ import annotations

import json
from typing import Any

from fuzz.instrument import HITS
from fuzz.target import Target


def toy(run: Any, **fields: Any) -> Target:
    return Target(name="toy", group="toys", about="a toy", run=run, **fields)


def branch(number: int) -> None:
    """Stand for a branch of instrumented code."""
    HITS.append(number)


def read_kind(data: bytes) -> None:
    """Fails for an object whose `kind` is `special`, and a number as `id`: one step after the other."""
    branch(1)
    try:
        value = json.loads(data)
    except ValueError:
        return
    branch(2)
    if not isinstance(value, dict):
        return
    branch(3)
    if value.get("kind") == "special":
        branch(4)
        if isinstance(value.get("id"), int):
            raise TypeError("an id that is not a string")


KINDS = toy(read_kind, format="json")
WORDS = ["kind", "special", "id"]
