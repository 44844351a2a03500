"""What a person says of a model, in one line. It is stronger than everything else, and may raise a limit.

    gpt-x = window:200k output:16000 images tools no-reasoning efforts:low/high price:1.25/10/0.125
    * = output:8000

The line is for the model of exactly this id, or with `*` for all. Where several lines speak of a field, one
with an id is stronger than `*`, and a later one than an earlier one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.models.info import LEAST_WINDOW, MOST_TOKENS, ModelFacts, Prices

ALL = "*"
EXAMPLE = "gpt-x = window:200k output:16000 images tools reasoning price:1.25/10"

_LIMITS = {"window": "window", "input": "max_input", "output": "max_output"}
_SWITCHES = {"images": "image_input", "tools": "tool_calling", "reasoning": "reasoning"}
_NUMBER = re.compile(r"(\d[\d_]{0,12})([km]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}

_Value = int | bool | tuple[str, ...] | Prices


class Override(Struct, frozen=True):
    """A line: the id that it is for, or `*`, and what it says."""

    id: str
    facts: ModelFacts


def parse_override(line: str) -> Override:
    """Read one line. `DecodeError` says what is wrong with it and what to write."""
    id, equals, rest = line.partition("=")
    id, words = id.strip(), rest.split()
    if not equals or not id or not words:
        raise DecodeError(f"an override is an id, `=` and what is so. Example: {EXAMPLE}")
    if re.search(r"\s", id) or (ALL in id and id != ALL):
        raise DecodeError(f"{id!r} is no id of a model: write the exact id, or * for every model")
    fields: dict[str, _Value] = {}
    for word in words:
        name, value = _field(word)
        if name in fields:
            raise DecodeError(f"{word!r} says a thing for the second time: once is enough")
        fields[name] = value
    facts = ModelFacts(**fields)  # type: ignore[arg-type]  # `_field` gives each name its type
    if facts.window and (facts.max_input or 1) + (facts.max_output or 1) > facts.window:
        raise DecodeError("input and output do not fit into the window: lower one of them")
    return Override(id, facts)


def override_for(id: str, overrides: Iterable[Override]) -> ModelFacts:
    """All that the lines say of a model."""
    facts = ModelFacts()
    for each in sorted(overrides, key=lambda each: each.id != ALL):  # stable, so later lines stay later
        if each.id in (ALL, id):
            said = {
                name: value
                for name in ModelFacts.__struct_fields__
                if (value := getattr(each.facts, name)) not in (None, "")
            }
            facts = replace(facts, **said)
    return facts


def _field(word: str) -> tuple[str, _Value]:
    name, colon, value = word.partition(":")
    switch = name.removeprefix("no-")
    if not colon and switch in _SWITCHES:
        return _SWITCHES[switch], switch == name
    if colon and name in _LIMITS:
        return _LIMITS[name], _tokens(name, value)
    if colon and name == "price":
        return "prices", _prices(value)
    if colon and name == "efforts":
        return "efforts", tuple(filter(None, value.split("/")))
    known = [*(f"{each}:" for each in (*_LIMITS, "price", "efforts")), *_SWITCHES]
    raise DecodeError(f"{word!r} is not known here: use {', '.join(known)}, or no- before the last three")


def _tokens(name: str, text: str) -> int:
    found = _NUMBER.fullmatch(text)
    count = int(found[1].replace("_", "")) * _UNITS[found[2].lower()] if found else 0
    least = LEAST_WINDOW if name == "window" else 1
    if not least <= count <= MOST_TOKENS:
        raise DecodeError(
            f"{name}:{text} is no number of tokens: write one from {least} to {MOST_TOKENS}, such as 200000, "
            "200_000 or 200k"
        )
    return count


def _prices(text: str) -> Prices:
    try:
        prices = [float(each) for each in text.split("/")]
    except ValueError:
        prices = []
    if not 2 <= len(prices) <= 4 or not all(math.isfinite(each) and each >= 0 for each in prices):
        raise DecodeError(
            f"price:{text} is no price: write dollars per million tokens as input/output, then cached input "
            "and cache write if you like, such as price:1.25/10/0.125"
        )
    return Prices(*prices)
