"""Does a value fit a schema? What the maker of values asks before it gives one away.

Keywords that are not in the table are taken to be kept: annotations, formats, and what JSON Schema may yet
come up with. Work is bounded, since the schema is a stranger's: past the bound everything fits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeGuard

from msgspec import Struct

from penstock.demo.schema import patterns
from penstock.demo.schema.references import Schema, target_of

STEPS = 100_000
_DEEPEST = 60


def fits(value: Any, schema: Any, root: Schema) -> bool:
    return Fitting(root).holds(value, schema)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is no 1, and 1.0 is one."""
    if one is other:
        return True
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def list_of(value: Any) -> list[Any]:
    """A keyword that should hold a list: itself, or an empty one."""
    return value if isinstance(value, list) else []


def object_of(value: Any) -> dict[str, Any]:
    """A keyword that should hold an object: itself, or an empty one."""
    return value if isinstance(value, dict) else {}


class _Asked(Struct, frozen=True):
    """One keyword of a schema, and the value that is to fit it."""

    value: Any
    argument: Any
    schema: Schema
    depth: int


class Fitting:
    """Answers for any number of values, with as many steps for all of them together."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._steps = STEPS

    def holds(self, value: Any, schema: Any) -> bool:
        return self._fits(value, schema, 0)

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        self._steps -= 1
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._steps < 0 or depth > _DEEPEST:
            return True
        return all(
            _CHECKS[keyword](self, _Asked(value, argument, schema, depth + 1))
            for keyword, argument in schema.items()
            if keyword in _CHECKS
        )

    def _each(self, values: list[Any], schema: Any, depth: int) -> bool:
        return all(self._fits(each, schema, depth) for each in values)

    def _count(self, asked: _Asked) -> int:
        return sum(self._fits(asked.value, each, asked.depth) for each in list_of(asked.argument))

    # -- any value

    def _type(self, asked: _Asked) -> bool:
        names = asked.argument if isinstance(asked.argument, list) else [asked.argument]
        known = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
        return not known or any(is_one(asked.value) for is_one in known)

    def _enum(self, asked: _Asked) -> bool:
        if not isinstance(asked.argument, list):
            return True
        self._steps -= len(asked.argument) // 10
        return self._steps < 0 or any(same(asked.value, each) for each in asked.argument)

    def _const(self, asked: _Asked) -> bool:
        return same(asked.value, asked.argument)

    def _reference(self, asked: _Asked) -> bool:
        if not isinstance(asked.argument, str):
            return True
        return self._fits(asked.value, target_of(self._root, asked.argument), asked.depth)

    def _all(self, asked: _Asked) -> bool:
        return self._count(asked) == len(list_of(asked.argument))

    def _any(self, asked: _Asked) -> bool:
        branches = list_of(asked.argument)
        return not branches or any(self._fits(asked.value, each, asked.depth) for each in branches)

    def _one(self, asked: _Asked) -> bool:
        return not list_of(asked.argument) or self._count(asked) == 1

    def _not(self, asked: _Asked) -> bool:
        return not self._fits(asked.value, asked.argument, asked.depth) or self._steps < 0

    def _if(self, asked: _Asked) -> bool:
        branch = "then" if self._fits(asked.value, asked.argument, asked.depth) else "else"
        return self._fits(asked.value, asked.schema.get(branch, True), asked.depth)

    # -- texts and numbers

    def _pattern(self, asked: _Asked) -> bool:
        return not isinstance(asked.value, str) or self._matches(asked.argument, asked.value)

    def _matches(self, pattern: Any, text: str) -> bool:
        if self._steps < 0:
            return True
        node = patterns.parse(pattern) if isinstance(pattern, str) else None
        if node is None:
            return False
        steps = patterns.Steps()
        matches = patterns.matches(node, text, steps)
        self._steps -= len(pattern) + (patterns.STEPS - steps.left) // 10
        return matches

    def _multiple(self, asked: _Asked) -> bool:
        value, unit = asked.value, asked.argument
        if not is_number(value) or not is_number(unit) or unit <= 0:
            return True
        try:
            return Decimal(str(value)) % Decimal(str(unit)) == 0
        except InvalidOperation:  # more digits than a Decimal divides
            return False

    # -- arrays

    def _items(self, asked: _Asked) -> bool:
        value, items, schema = asked.value, asked.argument, asked.schema
        if not isinstance(value, list):
            return True
        if isinstance(items, list):  # as it was before `prefixItems`
            rest = schema.get("additionalItems", True)
            return self._in_order(value, items, asked.depth) and self._each(
                value[len(items) :], rest, asked.depth
            )
        return self._each(value[len(list_of(schema.get("prefixItems"))) :], items, asked.depth)

    def _prefix(self, asked: _Asked) -> bool:
        return self._in_order(list_of(asked.value), list_of(asked.argument), asked.depth)

    def _in_order(self, values: list[Any], schemas: list[Any], depth: int) -> bool:
        pairs = zip(values, schemas, strict=False)
        return all(self._fits(each, schema, depth) for each, schema in pairs)

    def _unique(self, asked: _Asked) -> bool:
        values = list_of(asked.value)
        if asked.argument is not True:
            return True
        self._steps -= len(values) ** 2 // 2
        return self._steps < 0 or not any(
            same(one, other) for at, one in enumerate(values) for other in values[:at]
        )

    def _contains(self, asked: _Asked) -> bool:
        if not isinstance(asked.value, list):
            return True
        found = sum(self._fits(each, asked.argument, asked.depth) for each in asked.value)
        least, most = asked.schema.get("minContains"), asked.schema.get("maxContains")
        return found >= (least if is_number(least) else 1) and not (is_number(most) and found > most)

    # -- objects

    def _properties(self, asked: _Asked) -> bool:
        named, value = object_of(asked.argument), object_of(asked.value)
        return all(self._fits(value[name], named[name], asked.depth) for name in named if name in value)

    def _pattern_properties(self, asked: _Asked) -> bool:
        named = object_of(asked.value)
        for pattern, inner in object_of(asked.argument).items():
            self._steps -= len(named)
            if self._steps < 0:
                break
            matching = [each for name, each in named.items() if self._matches(pattern, name)]
            if not self._each(matching, inner, asked.depth):
                return False
        return True

    def _additional(self, asked: _Asked) -> bool:
        named = object_of(asked.schema.get("properties"))
        by_pattern = object_of(asked.schema.get("patternProperties"))
        others = [
            each
            for name, each in object_of(asked.value).items()
            if name not in named and not any(self._matches(pattern, name) for pattern in by_pattern)
        ]
        return self._each(others, asked.argument, asked.depth)

    def _required(self, asked: _Asked) -> bool:
        return not isinstance(asked.value, dict) or _has(asked.value, asked.argument)

    def _names(self, asked: _Asked) -> bool:
        return self._each(list(object_of(asked.value)), asked.argument, asked.depth)

    def _dependent(self, asked: _Asked) -> bool:
        """Names or a schema: `dependencies` took both before it became two keywords."""
        value = object_of(asked.value)
        wanted = [each for name, each in object_of(asked.argument).items() if name in value]
        return all(
            _has(value, each) if isinstance(each, list) else self._fits(value, each, asked.depth)
            for each in wanted
        )


def _has(value: dict[str, Any], names: Any) -> bool:
    return all(name in value for name in list_of(names) if isinstance(name, str))


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: is_number(value) and value == value // 1,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_Check = Callable[[Fitting, _Asked], bool]


def _bound(kind: type | tuple[type, ...], measure: Callable[[Any], Any], *, least: bool) -> _Check:
    """A keyword that bounds a number, a length or a count."""

    def check(_: Fitting, asked: _Asked) -> bool:
        value, bound = asked.value, asked.argument
        if not isinstance(value, kind) or isinstance(value, bool) or not is_number(bound):
            return True
        return bool(measure(value) >= bound if least else measure(value) <= bound)

    return check


def _exclusive(beside: str, sign: int) -> _Check:
    """A number, or the flag that it was in draft 4, where the number stands beside it."""

    def check(_: Fitting, asked: _Asked) -> bool:
        value = asked.value
        bound = asked.schema.get(beside) if asked.argument is True else asked.argument
        return not is_number(value) or not is_number(bound) or (value - bound) * sign > 0

    return check


def _itself(value: Any) -> Any:
    return value


_NUMBER = (int, float)
_CHECKS: dict[str, _Check] = {
    "$ref": Fitting._reference,
    "type": Fitting._type,
    "enum": Fitting._enum,
    "const": Fitting._const,
    "allOf": Fitting._all,
    "anyOf": Fitting._any,
    "oneOf": Fitting._one,
    "not": Fitting._not,
    "if": Fitting._if,
    "pattern": Fitting._pattern,
    "minLength": _bound(str, len, least=True),
    "maxLength": _bound(str, len, least=False),
    "minimum": _bound(_NUMBER, _itself, least=True),
    "maximum": _bound(_NUMBER, _itself, least=False),
    "exclusiveMinimum": _exclusive("minimum", 1),
    "exclusiveMaximum": _exclusive("maximum", -1),
    "multipleOf": Fitting._multiple,
    "items": Fitting._items,
    "prefixItems": Fitting._prefix,
    "minItems": _bound(list, len, least=True),
    "maxItems": _bound(list, len, least=False),
    "uniqueItems": Fitting._unique,
    "contains": Fitting._contains,
    "properties": Fitting._properties,
    "patternProperties": Fitting._pattern_properties,
    "additionalProperties": Fitting._additional,
    "required": Fitting._required,
    "propertyNames": Fitting._names,
    "minProperties": _bound(dict, len, least=True),
    "maxProperties": _bound(dict, len, least=False),
    "dependentRequired": Fitting._dependent,
    "dependentSchemas": Fitting._dependent,
    "dependencies": Fitting._dependent,
}
