"""Make a value that matches a JSON schema, filled with what the prompt says.

This covers what tools and structured outputs use in practice: types, properties, items, `enum`, `const`,
`anyOf`, `oneOf` (treated as `anyOf`), `allOf`, references, bounds, formats and simple patterns. Anything else
(`not`, `if`, `contains`, ...) is not honoured, and `Made.problem` reports it. The work is bounded, because a
schema can refer to itself or ask for a million items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any, TypeGuard
from urllib.parse import unquote

from msgspec import Struct

from penstock.demo.hints import Hints, words_of
from penstock.demo.patterns import write_match

Schema = dict[str, Any]

_BUDGET = 2000
"""How many schemas are visited while one value is made."""
_MAX_DEPTH = 24
_MAX_PARTS = 64
"""References and members of `allOf` that are merged into one schema."""
_DEEP = 8
"""From this depth on, or where a reference repeats, optional values are left out."""
_MAX_ITEMS = 1000
_MAX_TEXT = 100_000
_MAX_BRANCHES = 8

_ROOT = "#"
_EXACT = Context(prec=1000)
"""Enough digits to divide any two floating-point numbers."""

_UNSUPPORTED = (
    *("not", "if", "contains", "patternProperties", "propertyNames", "dependencies", "dependentRequired"),
    *("dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
)


class Made(Struct, frozen=True):
    """A value for a schema."""

    value: Any
    problem: str = ""
    """Why the value may not match the schema."""


class _Place(Struct, frozen=True):
    """Where in the value we are. `variant` is the index in a list, so that its items differ."""

    name: str = ""
    variant: int = 0
    depth: int = 0
    references: tuple[str, ...] = ()

    def inside(self, name: str, variant: int = 0) -> _Place:
        return _Place(name, variant, self.depth + 1, self.references)

    @property
    def is_deep(self) -> bool:
        repeats = (self.references.count(each) for each in set(self.references))
        return self.depth > _DEEP or max(repeats, default=0) > 1


def make(schema: Schema, hints: Hints) -> Made:
    """Make a value that matches `schema`."""
    maker = _Maker(schema, hints)
    value = maker.make(schema, _Place(references=(_ROOT,)))  # a reference to the root repeats it
    return Made(value, maker.problem)


class _Maker:
    def __init__(self, root: Schema, hints: Hints) -> None:
        self._root = root
        self._hints = hints
        self._budget = _BUDGET
        self.problem = ""

    def make(self, schema: Any, place: _Place) -> Any:
        self._budget -= 1
        if self._budget < 0 or place.depth > _MAX_DEPTH:
            return self._fail("the schema is too large or refers to itself without an end")
        if schema is False:
            return self._fail("nothing matches the schema `false`")
        flat, place = self._flatten(schema if isinstance(schema, dict) else {}, place)
        for keyword in _UNSUPPORTED:
            if keyword in flat:
                self._fail(f"the demo model does not support `{keyword}`")
        if "const" in flat:
            return flat["const"]
        if values := _list(flat.get("enum")):
            return self._from_enum(values, place)
        for keyword in ("anyOf", "oneOf"):
            if branches := _list(flat.get(keyword)):
                rest = {name: value for name, value in flat.items() if name != keyword}
                return self._from_branches(rest, branches, place)
        return _MAKERS[_type_of(flat, prefer_null=place.is_deep)](self, flat, place)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    # -- references and choices

    def _flatten(self, schema: Schema, place: _Place) -> tuple[Schema, _Place]:
        """Follow `$ref` and merge `allOf`, so that the result has neither."""
        flat: Schema = {}
        references = place.references
        pending: list[Any] = [schema]
        for _ in range(_MAX_PARTS):
            if not pending:
                break
            part = pending.pop(0)
            if not isinstance(part, dict):
                continue
            if isinstance(reference := part.get("$ref"), str):
                references = (*references, reference)
                pending.append(_target_of(self._root, reference))
            pending += _list(part.get("allOf"))
            for keyword, value in part.items():
                if keyword not in ("$ref", "allOf"):
                    flat[keyword] = self._both(keyword, flat[keyword], value) if keyword in flat else value
        if pending:
            self._fail("the schema has too many references")
        return flat, _Place(place.name, place.variant, place.depth, references)

    def _both(self, keyword: str, one: Any, other: Any) -> Any:
        """Combine two values of one keyword into a value that demands both."""
        if keyword == "properties" and isinstance(one, dict) and isinstance(other, dict):
            shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other}
            return {**one, **other, **shared}
        if keyword == "required":
            return [*_list(one), *_list(other)]
        if keyword in _BOUNDS and _is_number(one) and _is_number(other):
            return _BOUNDS[keyword](one, other)
        if keyword == "type" and {str(one), str(other)} == {"integer", "number"}:
            return "integer"
        if one != other and keyword not in _ANNOTATIONS:
            self._fail(f"the demo model cannot combine two values of `{keyword}`")
        return one

    def _from_enum(self, values: list[Any], place: _Place) -> Any:
        mentioned = [each for each in values if isinstance(each, str) and self._hints.mentions(each)]
        choices = mentioned[place.variant :] or values[place.variant % len(values) :]
        return choices[0]

    def _from_branches(self, rest: Schema, branches: list[Any], place: _Place) -> Any:
        """Take the first branch that can be made. Null comes last, unless it ends a recursion."""
        ordered = sorted(branches[:_MAX_BRANCHES], key=lambda each: _is_null(each) != place.is_deep)
        before, problems = self.problem, []
        for branch in ordered:
            self.problem = ""
            both = False if branch is False else {"allOf": [rest, branch]}
            value = self.make(both, place.inside(place.name, place.variant))
            if not self.problem:
                self.problem = before
                return value
            problems.append(self.problem)
        self.problem = before or problems[0]
        return None

    # -- texts, numbers and the like

    def _text(self, schema: Schema, place: _Place) -> Any:
        minimum, maximum = _count(schema, "minLength", 0), _count(schema, "maxLength", _MAX_TEXT)
        if minimum > _MAX_TEXT or maximum < minimum:
            return self._fail("no text has the length that the schema asks for")
        pattern, format = schema.get("pattern"), _FORMATS.get(str(schema.get("format")))
        if isinstance(pattern, str):
            text = write_match(pattern, variant=place.variant, minimum=minimum, maximum=maximum)
            return (
                self._fail(f"the demo model does not support the pattern {pattern!r}")
                if text is None
                else text
            )
        if format is not None:
            kind, write = format
            text = next(iter(self._hints.of_kind(kind)[place.variant :]), "") or write(place.variant)
            if not minimum <= len(text) <= maximum:
                self._fail(f"no {schema['format']} has the length that the schema asks for")
            return text
        suggested = self._suggested(schema, place, str)
        if (
            suggested is not None
            and minimum <= len(suggested) <= maximum
            and not self._hints.mentions(place.name)
        ):
            return suggested
        return _of_length(self._hint(schema, place), minimum, maximum)

    def _hint(self, schema: Schema, place: _Place) -> str:
        texts = list(self._hints.texts(place.name, str(schema.get("description") or "")))
        if place.variant < len(texts) - 1:
            return texts[place.variant]
        return f"{texts[0]} {place.variant + 1}" if place.variant else texts[0]

    def _integer(self, schema: Schema, place: _Place) -> Any:
        return self._number({**schema, "multipleOf": schema.get("multipleOf", 1)}, place, whole=True)

    def _number(self, schema: Schema, place: _Place, *, whole: bool = False) -> Any:
        suggested = self._suggested(schema, place, (int, float))
        given = list(self._hints.numbers_for(place.name))[place.variant :]
        suggestions = [] if suggested is None else [suggested]
        for candidate in (*given, *suggestions, *_numbers(schema, place.variant), *_numbers(schema, 0)):
            value = Decimal(str(candidate))
            if _allows(schema, value) and (not whole or value == value.to_integral_value()):
                return int(value) if value == value.to_integral_value() else float(value)
        return self._fail("no number is within the bounds of the schema")

    def _boolean(self, schema: Schema, place: _Place) -> Any:
        suggested = self._suggested(schema, place, bool)
        return place.variant % 2 == 0 if suggested is None else suggested

    def _null(self, schema: Schema, place: _Place) -> Any:  # noqa: ARG002 - every maker has this signature
        return None

    def _suggested(self, schema: Schema, place: _Place, type: type | tuple[type, ...]) -> Any:
        """Return the example or default that the schema's author gives."""
        suggestions = _list(schema.get("examples"))[place.variant : place.variant + 1]
        if not place.variant:
            suggestions.append(schema.get("default"))
        return next((each for each in suggestions if isinstance(each, type)), None)

    # -- arrays and objects

    def _array(self, schema: Schema, place: _Place) -> Any:
        items = schema.get("items", True)
        ordered = items if isinstance(items, list) else _list(schema.get("prefixItems"))
        minimum, maximum = _count(schema, "minItems", 0), _count(schema, "maxItems", _MAX_ITEMS)
        if minimum > _MAX_ITEMS or maximum < minimum:
            return self._fail("no list has the length that the schema asks for")
        if {"command", "cmd", "argv"} & set(words_of(place.name)) and _is_plain_text(items):
            return self._hints.of_kind("commands")[0].split()
        usual = max(1, len(ordered)) if (ordered or "items" in schema) and not place.is_deep else 0
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        made: list[Any] = []
        for index in range(min(max(minimum, usual), maximum)):
            if self._budget < 0:
                break
            inner = ordered[index] if index < len(ordered) else rest
            made.append(self.make(inner, place.inside(place.name, index)))
        if schema.get("uniqueItems") is True and any(each in made[:at] for at, each in enumerate(made)):
            self._fail("the demo model found too few different items")
        return made

    def _object(self, schema: Schema, place: _Place) -> Any:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        mentioned = [] if place.is_deep else [name for name in properties if self._hints.mentions(name)]
        names = list(dict.fromkeys([*required, *mentioned]))
        minimum, maximum = _count(schema, "minProperties", 0), _count(schema, "maxProperties", _MAX_ITEMS)
        chosen = set(names)
        more = [name for name in properties if name not in chosen]
        names = [*names[: max(len(required), maximum)], *more[: max(0, minimum - len(names))]]
        others = schema.get("additionalProperties", True)
        if others is not False:
            names += [f"name{index + 1}" for index in range(min(minimum, _MAX_ITEMS) - len(names))]
        if not minimum <= len(names) <= maximum:
            self._fail("no object has as many properties as the schema asks for")
        made = {}
        for name in names:
            made[name] = self.make(properties.get(name, others), place.inside(name))
        return made


_MAKERS: dict[str, Callable[[_Maker, Schema, _Place], Any]] = {
    "object": _Maker._object,
    "array": _Maker._array,
    "string": _Maker._text,
    "integer": _Maker._integer,
    "number": _Maker._number,
    "boolean": _Maker._boolean,
    "null": _Maker._null,
}

_TYPE_KEYWORDS: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "uniqueItems"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
"""Keywords that show which type is meant where a schema names none."""

_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}

_ANNOTATIONS = ("title", "description", "default", "examples", "$schema", "$defs", "definitions", "$comment")

_FORMATS: dict[str, tuple[str, Callable[[int], str]]] = {
    # The kind of hint that has this format, and a text that differs for each variant.
    "date-time": ("", lambda n: f"2026-01-{n % 28 + 1:02}T09:30:00Z"),
    "date": ("dates", lambda n: f"2026-01-{n % 28 + 1:02}"),
    "time": ("", lambda n: f"{n % 24:02}:30:00Z"),
    "duration": ("", lambda n: f"PT{n + 15}M"),
    "email": ("emails", lambda n: f"demo{n or ''}@example.com"),
    "hostname": ("", lambda n: f"demo{n or ''}.example.com"),
    "ipv4": ("", lambda n: f"192.0.2.{n % 254 + 1}"),
    "ipv6": ("", lambda n: f"2001:db8::{n + 1:x}"),
    "uri": ("urls", lambda n: f"https://example.com/demo{n or ''}"),
    "url": ("urls", lambda n: f"https://example.com/demo{n or ''}"),
    "uri-reference": ("urls", lambda n: f"/demo{n or ''}"),
    "uuid": ("", lambda n: f"00000000-0000-4000-8000-{n + 1:012}"),
}


def _type_of(schema: Schema, *, prefer_null: bool) -> str:
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    known = [name for name in names if isinstance(name, str) and name in _MAKERS]
    if known:
        return min(known, key=lambda name: (name == "null") != prefer_null)
    return next((name for name, keywords in _TYPE_KEYWORDS.items() if schema.keys() & keywords), "string")


def _target_of(root: Schema, reference: str) -> Any:
    """Resolve a reference into this document (RFC 6901). A broken reference allows anything."""
    if not reference.startswith("#"):
        return True
    target: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return True
    return target


def _numbers(schema: Schema, variant: int) -> Iterator[Decimal]:
    """Yield plain numbers near one, near the bounds and between them, as multiples of `multipleOf`."""
    low, high = _limits(schema)
    unit = schema.get("multipleOf")
    step = Decimal(str(unit)) if _is_number(unit) and 1e-9 < unit < 1e15 else Decimal(1)
    for start in (Decimal(1), low, high, Decimal(0)):
        if start is not None:
            nearest = start / step
            for rounding in ("ROUND_CEILING", "ROUND_FLOOR"):
                rounded = nearest.to_integral_value(rounding)
                yield from ((rounded + offset) * step for offset in (variant, variant + 1, -variant - 1))
    if low is not None and high is not None:
        yield low + (high - low) * (variant + 1) / (variant + 2)


def _limits(schema: Schema) -> tuple[Decimal | None, Decimal | None]:
    lows = [each for each in map(schema.get, ("minimum", "exclusiveMinimum")) if _is_number(each)]
    highs = [each for each in map(schema.get, ("maximum", "exclusiveMaximum")) if _is_number(each)]
    low, high = max(lows, default=None), min(highs, default=None)
    return None if low is None else Decimal(str(low)), None if high is None else Decimal(str(high))


def _allows(schema: Schema, value: Decimal) -> bool:
    low, high = _limits(schema)
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    for keyword, bound in (("exclusiveMinimum", low), ("exclusiveMaximum", high)):
        # In draft 4 these are flags for `minimum` and `maximum`.
        exclusive = schema.get(keyword)
        limit = bound if exclusive is True else exclusive if _is_number(exclusive) else None
        if limit is not None and value == Decimal(str(limit)):
            return False
    unit = schema.get("multipleOf")
    return not _is_number(unit) or unit <= 0 or _EXACT.remainder(value, Decimal(str(unit))) == 0


def _of_length(text: str, minimum: int, maximum: int) -> str:
    if len(text) < minimum:
        filler = text.strip() or "demo"
        text = (text + f" {filler}" * (minimum // (len(filler) + 1) + 1)).lstrip()[:minimum]
    return text[:maximum]


def _is_plain_text(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and schema.keys() <= {"type", "description", "title"}
    )


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(schema: Schema, keyword: str, default: int) -> int:
    value = schema.get(keyword)
    return int(value) if _is_number(value) and 0 <= value < 1e15 else default
