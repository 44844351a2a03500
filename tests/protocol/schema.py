"""The published OpenAPI files as validators, and as Hypothesis strategies for valid values.

The files are outside the repository; tests that need them are skipped, with a reason, if they are absent.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import strategies as st

SPEC = Path(__file__).resolve().parents[3] / "shared" / "spec"

RELEASES = ("2026-04-24", "2026-01-15")

_ANNOTATIONS = frozenset({"title", "description", "default", "example", "examples", "discriminator"})
"""Keywords without an effect on validity, like those that start with `x-`."""

_MOST = 3
"""Maximum number of array elements and of unknown fields in a generated value."""

_DEEPEST = 12
"""From this depth on only required fields are generated, so that a schema may refer to itself."""

UNKNOWN_NAMES = ("acme:trace", "extra", "self", "x_ünknown", "__class__", "catch_all", "")
"""Fields that no type declares, including names that Penstock's own classes use."""

_NASTY: tuple[Any, ...] = (
    None,
    False,
    2**70,
    -0.0,
    1e-7,
    "",
    "\x00\u2028😀",
    [],
    {},
    [None, {"type": None, "extra": {"extra": None}}],
    {"": [[{"id": 1.0}]], "type": "message", "role": None},
)
"""Values of unknown fields: each is easy to lose or to change by accident."""


class NoValue(Exception):  # noqa: N818 - not an error: the schema says "never"
    """No value fits the schema, which is how the specification forbids a field."""


@cache
def components(release: str) -> dict[str, Any]:
    """Return the schemas of a release, by name."""
    path = SPEC / f"openapi-{release}.json"
    if not path.exists():
        pytest.skip(f"needs the published OpenAPI file openapi-{release}.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    schemas: dict[str, Any] = document["components"]["schemas"]
    return schemas


@cache
def event_components() -> dict[str, str]:
    """Return the component that describes an event, by event type."""
    path = SPEC / "event-schema-map.txt"
    if not path.exists():
        pytest.skip("needs the published map from event types to components")
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {type: pointer.rpartition("/")[2] for type, pointer in rows}


@cache
def validator(release: str, component: str) -> jsonschema_rs.Draft202012Validator:
    """OpenAPI 3.1 is JSON Schema 2020-12."""
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{component}", "components": {"schemas": components(release)}}
    )


def complaints(release: str, component: str, value: Any) -> list[str]:
    """Return what is wrong with `value` as a `component`."""
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}"
        for error in validator(release, component).iter_errors(value)
    ]


@cache
def values(release: str, component: str) -> st.SearchStrategy[Any]:
    """Return valid values of `component`. Each is validated, so that an error in the generator is noticed."""

    def validated(value: Any) -> Any:
        assert complaints(release, component, value) == [], f"the generator is wrong about {component}"
        return value

    return _component(component, release, 0).map(validated)


@cache
def _component(name: str, release: str, depth: int) -> st.SearchStrategy[Any]:
    return _values(components(release)[name], release, depth)


def _values(schema: Any, release: str, depth: int) -> st.SearchStrategy[Any]:
    """Return the strategy for one schema. An unknown keyword is an error: it must not be ignored."""
    if "$ref" in schema:
        return _component(_name(schema), release, depth)
    schema = _flat(schema, release)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for union in ("oneOf", "anyOf"):
        if union in schema:
            _expect_only(schema, {union})
            return st.one_of(_satisfiable(schema[union], release, depth))
    if not schema:
        return st.sampled_from([value for value in _NASTY if value is not None])
    make = {
        "object": _objects,
        "array": _arrays,
        "string": _strings,
        "integer": _integers,
        "number": _numbers,
        "boolean": lambda *_: st.booleans(),
        "null": lambda *_: st.none(),
    }[schema["type"]]
    return make(schema, release, depth)


def _flat(schema: dict[str, Any], release: str) -> dict[str, Any]:
    """The same schema without `$ref`, `allOf` and annotations at its top."""
    bare = {key: schema[key] for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}
    if "$ref" in bare:
        return _flat(components(release)[_name(schema)], release)
    for part in bare.pop("allOf", ()):
        bare = _both(bare, _flat(part, release))
    if bare.get("minLength", 0) > bare.get("maxLength", math.inf):
        raise NoValue
    return bare


def _name(reference: dict[str, Any]) -> str:
    _expect_only(reference, {"$ref"})
    name: str = reference["$ref"].removeprefix("#/components/schemas/")
    return name


def _both(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    merged = {**left, **right}
    for key in left.keys() & right.keys():
        if key == "required":
            merged[key] = [*left[key], *right[key]]
        elif key == "properties":
            merged[key] = {
                name: {"allOf": [side[key][name] for side in (left, right) if name in side[key]]}
                for name in {**left[key], **right[key]}
            }
        elif left[key] != right[key]:
            raise NoValue
    return merged


def _expect_only(schema: dict[str, Any], keywords: set[str]) -> None:
    assert schema.keys() <= keywords, f"the generator does not know {schema.keys() - keywords}"


def _satisfiable(options: list[Any], release: str, depth: int) -> list[st.SearchStrategy[Any]]:
    found = []
    for option in options:
        try:
            found.append(_values(option, release, depth))
        except NoValue:
            continue
    if not found:
        raise NoValue
    return found


def _objects(schema: dict[str, Any], release: str, depth: int) -> st.SearchStrategy[Any]:
    _expect_only(schema, {"type", "properties", "required", "additionalProperties", "maxProperties"})
    names = set(schema.get("required", ()))
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in schema.get("properties", {}).items():
        try:
            strategy = _values(field, release, depth + 1)
        except NoValue:
            if name in names:
                raise
            continue
        (required if name in names else optional)[name] = strategy
    assert names <= required.keys(), "the generator expects a schema for every required field"
    known = st.fixed_dictionaries(required, optional=optional if depth < _DEEPEST else {})
    others = schema.get("additionalProperties", {})
    if others is False:
        return known
    room = min(_MOST, schema.get("maxProperties", _MOST))
    if others in ({}, True):
        extra = st.dictionaries(st.sampled_from(UNKNOWN_NAMES), st.sampled_from(_NASTY), max_size=room)
    else:
        extra = st.dictionaries(st.text(max_size=5), _values(others, release, depth + 1), max_size=room)
    return st.builds(lambda fields, more: {**fields, **more}, known, st.just({}) | extra)


def _arrays(schema: dict[str, Any], release: str, depth: int) -> st.SearchStrategy[Any]:
    _expect_only(schema, {"type", "items", "minItems", "maxItems"})
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", _MOST), least + (_MOST if depth < _DEEPEST else 0))
    return st.lists(_values(schema.get("items", {}), release, depth + 1), min_size=least, max_size=most)


def _strings(schema: dict[str, Any], *_: Any) -> st.SearchStrategy[str]:
    _expect_only(schema, {"type", "minLength", "maxLength", "pattern"})
    least, most = schema.get("minLength", 0), schema.get("maxLength", 8)
    if "pattern" in schema:
        matching = st.from_regex(re.compile(schema["pattern"]), fullmatch=True)
        return matching.filter(lambda text: least <= len(text) <= most)
    return st.text(min_size=least, max_size=min(most, least + 8))


def _integers(schema: dict[str, Any], *_: Any) -> st.SearchStrategy[Any]:
    """Whole numbers, now and then spelled `1.0`: JSON Schema counts them as integers."""
    _expect_only(schema, {"type", "minimum", "maximum"})
    least, most = schema.get("minimum"), schema.get("maximum")
    small = st.integers(max(-99, -99 if least is None else least), 99 if most is None else most)
    return st.integers(least, most) | small.map(float)


def _numbers(schema: dict[str, Any], *_: Any) -> st.SearchStrategy[Any]:
    _expect_only(schema, {"type", "minimum", "maximum"})
    bounds = schema.get("minimum"), schema.get("maximum")
    return st.floats(*bounds, allow_nan=False, allow_infinity=False) | st.integers(0, 9)
