"""Parse the user's overrides, one line per model. They override all other sources and may raise a limit.

    gpt-x = window:200k output:16000 images tools no-reasoning efforts:low/high price:1.25/10/0.125
    * = output:8000

A line applies to the model with exactly this id, or with `*` to all. If several lines set a field, a line
with an id overrides `*`, and a later line overrides an earlier one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.models.info import MAX_TOKENS, MIN_WINDOW, ModelFacts, Prices

ALL = "*"
EXAMPLE = "gpt-x = window:200k output:16000 images tools reasoning price:1.25/10"

_LIMITS = {"window": "window", "input": "max_input", "output": "max_output"}
_SWITCHES = {"images": "image_input", "tools": "tool_calling", "reasoning": "reasoning"}
_NUMBER = re.compile(r"(\d[\d_]{0,12})([km]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}

_Value = int | bool | tuple[str, ...] | Prices


class Override(Struct, frozen=True):
    """A parsed line: an id or `*`, and the facts."""

    id: str
    facts: ModelFacts


def parse_override(line: str) -> Override:
    """Parse one line; raise `DecodeError` with a message that says what to write."""
    id, equals, rest = line.partition("=")
    id, words = id.strip(), rest.split()
    if not equals or not id or not words:
        raise DecodeError(f"an override must have the form `ID = SETTINGS`. Example: {EXAMPLE}")
    if re.search(r"\s", id) or (ALL in id and id != ALL):
        raise DecodeError(f"{id!r} is not a model id: use the exact id, or * for all models")
    fields: dict[str, _Value] = {}
    for word in words:
        name, value = _field(word)
        if name in fields:
            raise DecodeError(f"{word!r} sets a value that is already set: remove one of the two")
        fields[name] = value
    facts = ModelFacts(**fields)  # type: ignore[arg-type]  # `_field` gives each name its type
    if facts.window and (facts.max_input or 1) + (facts.max_output or 1) > facts.window:
        raise DecodeError("input and output together exceed the window: lower one of them")
    return Override(id, facts)


def override_for(id: str, overrides: Iterable[Override]) -> ModelFacts:
    """Return the merged overrides of a model."""
    facts = ModelFacts()
    for each in sorted(overrides, key=lambda each: each.id != ALL):  # stable, so later lines stay later
        if each.id in (ALL, id):
            fields = {
                name: value
                for name in ModelFacts.__struct_fields__
                if (value := getattr(each.facts, name)) not in (None, "")
            }
            facts = replace(facts, **fields)
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
    raise DecodeError(f"unknown setting {word!r}: use {', '.join(known)}; the last three may begin with no-")


def _tokens(name: str, text: str) -> int:
    found = _NUMBER.fullmatch(text)
    count = int(found[1].replace("_", "")) * _UNITS[found[2].lower()] if found else 0
    minimum = MIN_WINDOW if name == "window" else 1
    if not minimum <= count <= MAX_TOKENS:
        raise DecodeError(
            f"{name}:{text} is not a valid number of tokens: use {minimum} to {MAX_TOKENS}, such as 200000, "
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
            f"price:{text} is not a valid price: use dollars per million tokens as input/output, optionally "
            "followed by cached input and cache write, such as price:1.25/10/0.125"
        )
    return Prices(*prices)
