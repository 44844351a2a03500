"""Texts and numbers that keep to the bounds of a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from penstock.demo.schema import patterns
from penstock.demo.schema.fits import is_number
from penstock.demo.schema.hints import Hints
from penstock.demo.schema.references import Schema

LONGEST = 100_000
"""Characters of a text that a schema can ask for."""

_LARGEST = 2**53
"""Whole numbers up to here are the same in every language that reads JSON."""
_PATTERN_TRIES = 12
_HINTS = 6

FORMATS: dict[str, tuple[str, Callable[[int], str]]] = {
    # The kind of hint that has the format, and a text of it that differs for each number.
    "date-time": ("", lambda n: f"2026-01-{n % 28 + 1:02}T09:30:00Z"),
    "date": ("dates", lambda n: f"2026-01-{n % 28 + 1:02}"),
    "time": ("", lambda n: f"{n % 24:02}:30:00Z"),
    "duration": ("", lambda n: f"PT{n + 15}M"),
    "email": ("emails", lambda n: f"demo{n or ''}@example.com"),
    "idn-email": ("emails", lambda n: f"demo{n or ''}@example.com"),
    "hostname": ("", lambda n: f"demo{n or ''}.example.com"),
    "idn-hostname": ("", lambda n: f"demo{n or ''}.example.com"),
    "ipv4": ("", lambda n: f"192.0.2.{n % 254 + 1}"),
    "ipv6": ("", lambda n: f"2001:db8::{n + 1:x}"),
    "uri": ("urls", lambda n: f"https://example.com/demo{n or ''}"),
    "url": ("urls", lambda n: f"https://example.com/demo{n or ''}"),
    "iri": ("urls", lambda n: f"https://example.com/demo{n or ''}"),
    "uri-reference": ("urls", lambda n: f"/demo{n or ''}"),
    "iri-reference": ("urls", lambda n: f"/demo{n or ''}"),
    "uri-template": ("", lambda n: f"/demo{n or ''}/{{id}}"),
    "uuid": ("", lambda n: f"00000000-0000-4000-8000-{n + 1:012}"),
    "json-pointer": ("", lambda n: f"/demo{n or ''}"),
    "relative-json-pointer": ("", lambda n: f"{n}"),
    "regex": ("", lambda n: f"demo{n or ''}"),
    "byte": ("", lambda _: "ZGVtbw=="),
}


def texts(schema: Schema, name: str, variant: int, hints: Hints) -> Iterator[str]:
    """Texts for one field. Another variant gives other texts, for lists without repeats."""
    least, most = _count(schema, "minLength", 0), _count(schema, "maxLength", LONGEST)
    for text in _wordings(schema, name, variant, hints):
        yield _of_length(text, least, min(most, LONGEST))
    if pattern := schema.get("pattern"):
        node = patterns.parse(pattern) if isinstance(pattern, str) else None
        for first, last in ((variant, variant + _PATTERN_TRIES), (0, variant)):
            written = patterns.examples(node) if node is not None else iter(())
            yield from islice((text for text in written if least <= len(text) <= most), first, last)
    if not schema.get("format"):
        yield _of_length("", least, most)


def _wordings(schema: Schema, name: str, variant: int, hints: Hints) -> Iterator[str]:
    kind, write = FORMATS.get(str(schema.get("format")), ("", None))
    if write is not None:
        yield from hints.of_kind(kind)[variant:]
        yield write(variant)
        return
    given = list(hints.texts(name, str(schema.get("description") or "")))
    yield from given[variant : variant + 1] if len(given) > variant + 1 else ()
    yield from (f"{text} {variant + 1}" if variant else text for text in given[:_HINTS])


def _of_length(text: str, least: int, most: int) -> str:
    if len(text) < least <= LONGEST:
        filler = text.strip() or "demo"
        text = (text + f" {filler}" * (least // (len(filler) + 1) + 1)).lstrip()[:least]
    return text[:most]


def _count(schema: Schema, keyword: str, default: int) -> int:
    value = schema.get(keyword)
    return int(value) if is_number(value) and 0 <= value < _LARGEST else default


def numbers(schema: Schema, name: str, variant: int, hints: Hints, *, whole: bool) -> Iterator[int | float]:
    """Numbers for one field: the prompt's where they fit, then the plainest that the bounds allow."""
    low, high = _bounds(schema)
    given = [Decimal(str(each)) for each in hints.numbers_for(name)][variant:]
    candidates = [*given, *_plain_numbers(schema, low, high, variant), *_plain_numbers(schema, low, high, 0)]
    if whole:
        candidates = [each for each in candidates if each == each.to_integral_value()]
    within = (each for each in candidates if (low is None or each >= low) and (high is None or each <= high))
    yield from map(_plain, dict.fromkeys(within))


def _plain_numbers(
    schema: Schema, low: Decimal | None, high: Decimal | None, variant: int
) -> Iterator[Decimal]:
    """Near one, near a bound, between the bounds; each a multiple where one is asked for."""
    unit = schema.get("multipleOf")
    step = _decimal(unit) if is_number(unit) and unit > 0 else Decimal(1)
    for start in (Decimal(1), low, high, Decimal(0)):
        if start is None:
            continue
        nearest = _clamped(start, low, high) / step
        for rounded in (nearest.to_integral_value("ROUND_CEILING"), nearest.to_integral_value("ROUND_FLOOR")):
            yield from ((rounded + offset) * step for offset in (variant, variant + 1, -variant - 1))
    if low is not None and high is not None:
        yield low + (high - low) * (variant + 1) / (variant + 2)


def _bounds(schema: Schema) -> tuple[Decimal | None, Decimal | None]:
    lows = [schema.get(keyword) for keyword in ("minimum", "exclusiveMinimum")]
    highs = [schema.get(keyword) for keyword in ("maximum", "exclusiveMaximum")]
    low = max((_decimal(each) for each in lows if is_number(each)), default=None)
    high = min((_decimal(each) for each in highs if is_number(each)), default=None)
    return low, high


def _clamped(value: Decimal, low: Decimal | None, high: Decimal | None) -> Decimal:
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)


def _plain(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() and abs(value) <= _LARGEST else float(value)
