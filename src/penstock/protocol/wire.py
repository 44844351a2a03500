"""Reading protocol types from JSON and writing them.

Reading is lenient: a null that the type does not allow counts as absent, an unknown field goes to `extra`,
and an unknown union member becomes the union's catch-all type. Writing is strict: every declared field is
written, and never a null that the type does not allow.

The types are plain msgspec Structs, so msgspec writes them. Reading is our own code, because msgspec drops
unknown fields and rejects unknown union members, and both must survive a round trip.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.errors import DecodeError, JsonSyntaxError

Reader = Callable[[Any], Any]
"""Turns a decoded JSON value into a typed one, or raises `DecodeError`."""

Seconds = Annotated[int, "seconds since 1970"]
"""A timestamp. Fractions of a second, which some vendors send, are dropped: it is an integer (spec S6)."""

Code = Annotated[str, "error code"]
"""The code of an error. Some vendors send a number, which is converted to a string."""

W = TypeVar("W", bound="Wire")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Wire(Struct, kw_only=True, frozen=True, gc=False):
    """A value of the protocol. There are three kinds of fields:

    - `x: T = default` is always written. If absent (or a null that `T` does not allow), it gets the default.
    - `x: T | UnsetType = UNSET` is written if it is set. `UNSET` is false, so `if value.x:` works.
    - `x: T` is required. Its class needs `kw_only=True`, which msgspec does not inherit.
    """

    implied_by: ClassVar[str] = ""
    """A value without a `type` has this type if it has a field of this name."""

    catch_all: ClassVar[bool] = False
    """True for the union member that accepts unknown types. It preserves nulls."""

    extra: dict[str, Any] | UnsetType = UNSET
    """Fields that the type does not declare, unchanged. They are written next to the declared fields."""


def decode(data: bytes | str, type: type[W]) -> W:
    """Read one JSON document as `type`."""
    return read(parse(data), type)


def parse(data: bytes | str) -> Any:
    """Parse one JSON document into dicts, lists and scalars."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise JsonSyntaxError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise DecodeError("nested too deeply") from None


def read(raw: Any, type: type[W]) -> W:
    """Read a decoded JSON value as `type`."""
    try:
        value: W = _reader(type)(raw)
    except RecursionError:
        raise DecodeError("nested too deeply") from None
    return value


_encode = msgspec.json.Encoder().encode
_EXTRA = b'"extra":'
_SHORT = 4096


def encode(value: Any) -> bytes:
    """Encode a value as one line of JSON.

    `extra` fields are rare. If there are any, their name is in the JSON; in a text, its quotes would be
    escaped. In short JSON, searching for it is faster than looking at every field.
    """
    data = _encode(value)
    if len(data) <= _SHORT and _EXTRA not in data:
        return data
    spread = _spread(value)
    return data if spread is value else _encode(spread)


def to_builtins(value: Any) -> Any:
    """Convert a value to dicts, lists and scalars."""
    return msgspec.to_builtins(_spread(value))


def _is_leaf(kind: type) -> bool:
    """Return whether no field of the Struct can contain another Struct, so that nothing below has `extra`."""
    return issubclass(kind, Wire) and not _deep_fields(kind)


@cache
def _deep_fields(kind: type[Wire]) -> tuple[str, ...]:
    """Return the fields that can contain another Struct: only these can have `extra` below them."""
    hints = get_type_hints(kind)
    return tuple(name for name in kind.__struct_fields__ if not _holds_no_struct(hints[name]))


def _holds_no_struct(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return False
    return all(_holds_no_struct(argument) for argument in get_args(hint))


_ATOMS = frozenset({str, int, float, bool, dict, types.NoneType, UnsetType, msgspec.Raw})
"""Classes of values that contain no Struct."""


def _spread(value: Any) -> Any:
    """Return `value` with every `extra` merged into its parent; `value` itself if there is none."""
    if isinstance(value, Wire):
        changed: dict[str, Any] = {}
        for name in _deep_fields(value.__class__):
            old = getattr(value, name)
            if old.__class__ not in _ATOMS and (new := _spread(old)) is not old:
                changed[name] = new
        return value if value.extra is UNSET and not changed else _merged(value, changed)
    if isinstance(value, list):
        spread: list[Any] | None = None
        for place, old in enumerate(value):
            if old.__class__ not in _ATOMS and (new := _spread(old)) is not old:
                spread = spread or value.copy()
                spread[place] = new
        return value if spread is None else spread
    return value


def _merged(value: Wire, changed: dict[str, Any]) -> dict[str, Any]:
    fields = {
        name: each
        for name in value.__struct_fields__
        if name != "extra" and (each := getattr(value, name)) is not UNSET
    }
    # `extra` may hold a declared name with a null that the field does not allow; it takes precedence.
    return fields | changed | (value.extra or {})


@cache
def _reader(hint: Any) -> Reader:
    """Return the reader for a type annotation."""
    members = _members(hint)
    if object in members:
        return _read_anything
    if members != (hint,):
        return _union_reader(members)
    if get_origin(hint) is list:
        return _list_reader(_reader(get_args(hint)[0]))
    if _json_class(hint) is dict:
        return _scalar_reader(dict, "an object")
    if isinstance(hint, type) and issubclass(hint, Wire):
        return _struct_reader(hint)
    return _SCALARS[hint]


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of the union `hint`, without `UnsetType`, which never occurs on the wire."""
    union = get_origin(hint) is Union or get_origin(hint) is types.UnionType
    return tuple(member for member in (get_args(hint) if union else (hint,)) if member is not UnsetType)


def _json_class(hint: Any) -> Any:
    """Return the Python class of this type in decoded JSON; a Struct is returned unchanged."""
    origin = get_origin(hint)
    if origin is Annotated:
        return get_args(hint)[0]
    return origin or hint


def _scalar_reader(kind: type, expected: str) -> Reader:
    def read_scalar(raw: Any) -> Any:
        if raw.__class__ is not kind:
            raise DecodeError(f"expected {expected}, got {_json_type(raw)}")
        return raw

    return read_scalar


def _read_number(raw: Any) -> Any:
    if raw.__class__ is not float and raw.__class__ is not int:
        raise DecodeError(f"expected a number, got {_json_type(raw)}")
    return raw


def _read_integer(raw: Any) -> Any:
    if raw.__class__ is float and raw.is_integer():
        return int(raw)
    if raw.__class__ is not int:
        raise DecodeError(f"expected an integer, got {_json_type(raw)}")
    return raw


def _read_seconds(raw: Any) -> Any:
    return int(raw) if raw.__class__ is float else _read_integer(raw)


def _read_code(raw: Any) -> Any:
    if raw.__class__ is int:
        return str(raw)
    return _SCALARS[str](raw)


def _read_anything(raw: Any) -> Any:
    return raw


_SCALARS: dict[Any, Reader] = {
    str: _scalar_reader(str, "a string"),
    bool: _scalar_reader(bool, "true or false"),
    int: _read_integer,
    float: _read_number,
    Seconds: _read_seconds,
    Code: _read_code,
    Any: _read_anything,
    object: _read_anything,
}

_ALSO_ACCEPTS: dict[Any, type] = {int: float, float: int, Seconds: float, Code: int}
"""Another JSON type that a scalar is read from, in addition to its own."""

_JSON_TYPES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    types.NoneType: "null",
}


def _json_type(raw: Any) -> str:
    return _JSON_TYPES[raw.__class__]


def _list_reader(read_each: Reader) -> Reader:
    def read_list(raw: Any) -> Any:
        if raw.__class__ is not list:
            raise DecodeError(f"expected an array, got {_json_type(raw)}")
        values: list[Any] = []
        for each in raw:
            try:
                values.append(read_each(each))
            except DecodeError as error:
                raise error.within(f"[{len(values)}]") from None
        return values

    return read_list


def _struct_reader(kind: type[Wire]) -> Reader:
    """Return a reader for an object. Its table is built on first use: types may refer to themselves."""
    table: dict[str, tuple[Reader, bool]] | None = None
    # msgspec reads plain values without unknown fields three times as fast. It would convert 1 to 1.0 for a
    # float, so a type with floats is not plain.
    plain = _is_leaf(kind) and not any(float in _members(hint) for hint in get_type_hints(kind).values())

    def read_struct(raw: Any) -> Any:
        nonlocal table
        if table is None:
            table = _field_table(kind)
        if raw.__class__ is not dict:
            raise DecodeError(f"expected an object, got {_json_type(raw)}")
        if plain and raw.keys() <= table.keys():
            try:
                return msgspec.convert(raw, kind)
            except msgspec.ValidationError:
                pass  # a null or a wrong type: read field by field to find out which
        return _read_fields(raw, kind, table)

    return read_struct


def _field_table(kind: type[Wire]) -> dict[str, tuple[Reader, bool]]:
    """Return the reader of each field, and whether the field may be null."""
    table: dict[str, tuple[Reader, bool]] = {}
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        members = _members(hints[name])
        table[name] = (_reader(hints[name]), Any in members or types.NoneType in members)
    del table["extra"]
    return table


def _read_fields(raw: dict[str, Any], kind: type[Wire], table: dict[str, tuple[Reader, bool]]) -> Any:
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in raw.items():
        reader, nullable = table.get(name, (None, False))
        if reader is None or (value is None and not nullable and kind.catch_all):
            extra[name] = value
        elif value is not None:
            try:
                values[name] = reader(value)
            except DecodeError as error:
                raise error.within(name) from None
        elif nullable:
            values[name] = None
    if extra:
        values["extra"] = extra
    try:
        return kind(**values)
    except TypeError:
        missing = next(
            each.name for each in msgspec.structs.fields(kind) if each.required and each.name not in values
        )
        raise DecodeError("is required", missing) from None


def _union_reader(members: tuple[Any, ...]) -> Reader:
    """Return a reader for a union: scalars and lists by their JSON type, objects by their `type` field.

    The object member whose default `type` is empty is the catch-all.
    """
    by_class: dict[type, Reader] = {}
    structs: dict[str, type[Wire]] = {}
    for member in members:
        if isinstance(member, type) and issubclass(member, Wire):
            structs[_type_name(member)] = member
        elif member is not types.NoneType:
            by_class[_json_class(member)] = _reader(member)
    if structs:
        by_class[dict] = _object_union_reader(structs)
    expected = " or ".join(_JSON_TYPES[kind] for kind in by_class)
    for member in members:
        if member in _ALSO_ACCEPTS:
            by_class.setdefault(_ALSO_ACCEPTS[member], _reader(member))
    nullable = types.NoneType in members

    def read_union(raw: Any) -> Any:
        if raw is None and nullable:
            return None
        reader = by_class.get(raw.__class__)
        if reader is None:
            raise DecodeError(f"expected {expected}, got {_json_type(raw)}")
        return reader(raw)

    return read_union


def _type_name(kind: type[Wire]) -> str:
    for field in msgspec.structs.fields(kind):
        if field.name == "type" and isinstance(field.default, str):
            return field.default
    return ""


def _object_union_reader(structs: dict[str, type[Wire]]) -> Reader:
    readers = {name: _reader(kind) for name, kind in structs.items()}
    implied = [(kind.implied_by, readers[name]) for name, kind in structs.items() if kind.implied_by]

    def read_object(raw: dict[str, Any]) -> Any:
        name = raw.get("type")
        if name is None:
            for field, reader in implied:
                if field in raw:
                    return reader(raw)
        named = (readers.get(name) if isinstance(name, str) else None) or readers.get("")
        if named is None:
            raise DecodeError(f"expected one of {', '.join(sorted(readers))}", "type")
        return named(raw)

    return read_object
