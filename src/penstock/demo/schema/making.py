"""Makes a value that fits a schema.

For each schema there are candidates, the likeliest first, and the first that fits is taken; so a keyword that
the candidates know nothing of (`not`, `oneOf` with branches that overlap) is kept all the same, if any
candidate keeps it. Everything is bounded: a schema may lead back into itself, or ask for a million items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from penstock.demo.schema.fits import Fitting, fits, is_number, list_of, object_of
from penstock.demo.schema.hints import Hints, words_of
from penstock.demo.schema.references import Schema, flat, merged
from penstock.demo.schema.texts import numbers, texts

BUDGET = 2000
"""Schemas that are looked at while one value is made. Then it hurries, after as many again it takes whatever
comes first, and after as many again it stops."""
_PATTERN_COST = 80
_WIDTH = 50
"""Entries of a list or an object that cost as much as a schema."""
_WIDE = ("enum", "properties", "patternProperties", "required", "anyOf", "oneOf", "type", "examples")
_LONG_TEXT = 1000
_TRIES = 24
_DEEPEST = 24
_DEEP = 6
_ITEMS = 1000
_BRANCHES = 32


class Made(Struct, frozen=True):
    value: Any
    fits: bool
    """False where no candidate fits: the schema cannot be kept, or only in a way that is not known here."""


def make(schema: Schema, hints: Hints) -> Made:
    value = _Maker(schema, hints).make(schema, _Place())
    return Made(value, fits(value, schema, schema))


class _Place(Struct, frozen=True):
    """Where in the value we are."""

    name: str = ""
    variant: int = 0
    depth: int = 0
    references: tuple[str, ...] = ()
    """Those that were followed on the way here."""

    def inside(self, name: str, variant: int = 0) -> _Place:
        return _Place(name, variant, self.depth + 1, self.references)

    def behind(self, references: tuple[str, ...]) -> _Place:
        return _Place(self.name, self.variant, self.depth, (*self.references, *references))

    @property
    def is_deep(self) -> bool:
        """Time to come to an end: little is offered here that leads on."""
        repeats = (self.references.count(each) for each in set(self.references))
        return self.depth > _DEEP or max(repeats, default=0) > 1


class _Maker:
    def __init__(self, root: Schema, hints: Hints) -> None:
        self._root = root
        self._hints = hints
        self._budget = BUDGET
        self._fitting = Fitting(root)

    def make(self, schema: Any, place: _Place) -> Any:
        first: list[Any] = []
        for candidate in islice(self._candidates(schema, place), _TRIES):
            if self._budget < -BUDGET or self._fitting.holds(candidate, schema):
                return candidate
            first = first or [candidate]
        return first[0] if first else None

    def _hurries(self, place: _Place) -> bool:
        return place.is_deep or self._budget < 0

    def _candidates(self, schema: Any, place: _Place, nested: int = 0) -> Iterator[Any]:
        self._budget -= 1
        if schema is False or nested > _DEEPEST or self._budget < -2 * BUDGET:
            return
        known = flat(self._root, schema) if isinstance(schema, dict) else flat(self._root, {})
        self._budget -= (
            sum(len(known.schema[name]) for name in _WIDE if _is_wide(known.schema, name)) // _WIDTH
        )
        place = place.behind(known.references)
        if place.depth > _DEEPEST:
            yield None
        elif "const" in known.schema:
            yield known.schema["const"]
        elif list_of(known.schema.get("enum")):
            yield from self._from_enum(known.schema["enum"], place)
        elif branches := self._branches(known.schema, place):
            for branch in branches:
                tried = islice(self._candidates(branch, place, nested + 1), _TRIES)
                # What fits only another branch is better made for that one.
                yield from (each for each in tried if self._fitting.holds(each, branch))
        else:
            yield from self._of_types(known.schema, place)

    def _from_enum(self, values: list[Any], place: _Place) -> Iterator[Any]:
        named = [each for each in values if isinstance(each, str) and self._hints.mentions(each)]
        at = place.variant % len(values)
        yield from named[place.variant :]
        yield from islice([*values[at:], *values[:at]], 200)

    def _branches(self, schema: Schema, place: _Place) -> list[Any]:
        """The schema once for each way out of its first choice; none where it has no choice."""
        for keyword in ("anyOf", "oneOf"):
            if choices := list_of(schema.get(keyword)):
                rest = {name: value for name, value in schema.items() if name != keyword}
                ways = [merged(rest, each) for each in choices[:_BRANCHES]]
                # Nothing is said with null, unless it is the way out of a recursion.
                return sorted(ways, key=lambda way: _is_null(way) != self._hurries(place))
        if "if" in schema:
            rest = {name: value for name, value in schema.items() if name not in ("if", "then", "else")}
            kept = merged(schema["if"], schema.get("then", True))
            return [merged(rest, kept), merged(rest, schema.get("else", True)), rest]
        return []

    def _of_types(self, schema: Schema, place: _Place) -> Iterator[Any]:
        kinds = _types_of(schema)
        if self._hurries(place) and "null" in kinds:
            kinds = ["null"]
        for kind in kinds:
            yield from _MAKERS[kind](self, schema, place)
        yield from list_of(schema.get("examples"))[:4]
        if "default" in schema:
            yield schema["default"]

    # -- texts and numbers

    def _texts(self, schema: Schema, place: _Place) -> Iterator[Any]:
        if "pattern" in schema:
            self._budget -= _PATTERN_COST
            if self._budget < -BUDGET:
                schema = {keyword: value for keyword, value in schema.items() if keyword != "pattern"}
        if not self._hints.mentions(place.name):
            yield from self._suggested(schema, place)
        for text in texts(schema, place.name, place.variant, self._hints):
            self._budget -= len(text) // _LONG_TEXT
            yield text

    def _whole_numbers(self, schema: Schema, place: _Place) -> Iterator[Any]:
        yield from self._numbers(schema, place, whole=True)

    def _any_numbers(self, schema: Schema, place: _Place) -> Iterator[Any]:
        yield from self._numbers(schema, place, whole=False)

    def _numbers(self, schema: Schema, place: _Place, *, whole: bool) -> Iterator[Any]:
        if not self._hints.numbers:
            yield from self._suggested(schema, place)
        yield from numbers(schema, place.name, place.variant, self._hints, whole=whole)

    def _suggested(self, schema: Schema, place: _Place) -> Iterator[Any]:
        """What the schema's author would say, where the prompt says nothing."""
        yield from list_of(schema.get("examples"))[place.variant : place.variant + 1]
        if schema.get("default") is not None and not place.variant:
            yield schema["default"]

    def _booleans(self, schema: Schema, place: _Place) -> Iterator[Any]:
        yield from self._suggested(schema, place)
        yield from (True, False) if place.variant % 2 == 0 else (False, True)

    def _nothing(self, schema: Schema, place: _Place) -> Iterator[Any]:  # noqa: ARG002 - the table's shape
        yield None

    # -- arrays

    def _arrays(self, schema: Schema, place: _Place) -> Iterator[Any]:
        least = min(_count(schema, "minItems", 0), _ITEMS)
        most = _count(schema, "maxItems", _ITEMS)
        wanted = min(max(least, self._usual(schema, place)), most)
        if split := self._command(schema, place):
            yield split
        for count in dict.fromkeys((wanted, least, least + 1, min(most, least + 3))):
            yield [self._item(schema, place, index) for index in range(count)]

    def _usual(self, schema: Schema, place: _Place) -> int:
        """How many items to give where the schema does not say: one, so that there is something to see."""
        if self._hurries(place) or not (schema.keys() & {"items", "prefixItems", "contains"}):
            return 0
        return max(1, len(_in_order(schema)))

    def _item(self, schema: Schema, place: _Place, index: int) -> Any:
        ordered = _in_order(schema)
        if index < len(ordered):
            inner: Any = ordered[index]
        else:
            items = schema.get("items", True)
            inner = schema.get("additionalItems", True) if isinstance(items, list) else items
        if index < _count(schema, "minContains", 1) and "contains" in schema:
            inner = merged(inner, schema["contains"])
        return self.make(inner, place.inside(place.name, index))

    def _command(self, schema: Schema, place: _Place) -> list[str]:
        """A command as a list is one word an item."""
        if not {"command", "cmd", "argv"} & set(words_of(place.name)):
            return []
        items = flat(self._root, object_of(schema.get("items"))).schema
        is_texts = items.get("type") == "string" and items.keys() <= {"type", "description", "title"}
        return self._hints.of_kind("commands")[0].split() if is_texts else []

    # -- objects

    def _objects(self, schema: Schema, place: _Place) -> Iterator[Any]:
        named = object_of(schema.get("properties"))
        required = [name for name in list_of(schema.get("required")) if isinstance(name, str)]
        asked_for = [] if self._hurries(place) else [name for name in named if self._hints.mentions(name)]
        least = min(_count(schema, "minProperties", 0), _ITEMS)
        for optional in (asked_for, (), [*named][: max(0, least - len(required))], named):
            names = self._with_dependents(schema, list(dict.fromkeys([*required, *optional])))
            made = {name: self._property(schema, place, name) for name in names}
            for name in self._more_names(schema, place, least - len(made)):
                made.setdefault(name, self._property(schema, place, name))
            yield made

    def _with_dependents(self, schema: Schema, names: list[str]) -> list[str]:
        dependents = {**object_of(schema.get("dependencies")), **object_of(schema.get("dependentRequired"))}
        known = set(names)
        for name in names:  # it grows while it is read: a dependent has dependents too
            for each in list_of(dependents.get(name)):
                if isinstance(each, str) and each not in known:
                    known.add(each)
                    names.append(each)
        return names

    def _property(self, schema: Schema, place: _Place, name: str) -> Any:
        named = object_of(schema.get("properties"))
        if name in named:
            return self.make(named[name], place.inside(name))
        for pattern, inner in object_of(schema.get("patternProperties")).items():
            if self._fitting.holds(name, {"pattern": pattern}):
                return self.make(inner, place.inside(name))
        return self.make(schema.get("additionalProperties", True), place.inside(name))

    def _more_names(self, schema: Schema, place: _Place, count: int) -> list[str]:
        """Names for what an object must have beside its properties."""
        if count <= 0:
            return []
        wanted = schema.get("propertyNames", True)
        if schema.get("additionalProperties") is False:
            patterns = list(object_of(schema.get("patternProperties")))
            wanted = merged({"type": "string", "pattern": patterns[0]}, wanted) if patterns else False
        wanted = merged({"type": "string"}, wanted)
        return [
            name
            for index in range(count)
            if isinstance(name := self.make(wanted, place.inside("name", index)), str)
        ]


_MAKERS: dict[str, Callable[[_Maker, Schema, _Place], Iterator[Any]]] = {
    "object": _Maker._objects,
    "array": _Maker._arrays,
    "string": _Maker._texts,
    "integer": _Maker._whole_numbers,
    "number": _Maker._any_numbers,
    "boolean": _Maker._booleans,
    "null": _Maker._nothing,
}

_TELLING: dict[str, frozenset[str]] = {
    "object": frozenset(
        {"properties", "required", "additionalProperties", "minProperties", "patternProperties"}
    ),
    "array": frozenset({"items", "prefixItems", "minItems", "contains", "uniqueItems"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
}
"""Keywords that tell what is meant where a schema names no type."""


def _types_of(schema: Schema) -> list[str]:
    """The types to try, null last: a value says more."""
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    known = [name for name in names if isinstance(name, str) and name in _MAKERS]
    if known:
        return sorted(known, key=lambda name: name == "null")
    meant = [name for name, keywords in _TELLING.items() if schema.keys() & keywords]
    return list(dict.fromkeys([*meant, "string", "integer", "object", "array", "boolean", "null"]))


def _is_wide(schema: Schema, name: str) -> bool:
    return isinstance(schema.get(name), list | dict)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _in_order(schema: Schema) -> list[Any]:
    items = schema.get("items")
    return items if isinstance(items, list) else list_of(schema.get("prefixItems"))


def _count(schema: Schema, keyword: str, default: int) -> int:
    value = schema.get(keyword)
    return int(value) if is_number(value) and 0 <= value < 1e15 else default
