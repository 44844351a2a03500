"""How protocol types are read from JSON and written to it.

Liberal in: a null where the type has no null is taken as absent, a field that we do not know is kept in
`extra`, a union member of a type that we do not know becomes the union's catch-all member. Strict out:
what is written has every field that the type declares, and never a null that the type does not allow.

The types are plain msgspec Structs, so writing is msgspec's. Reading is ours, because msgspec drops unknown
fields and refuses unknown members of a union, and both must survive a round trip.
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

from penstock.errors import DecodeError

Reader = Callable[[Any], Any]
"""Turns a decoded JSON value into a typed one, or raises `DecodeError`."""

Seconds = Annotated[int, "seconds since 1970"]
"""A time. Some vendors send fractions of a second, cut off here: the schema has whole ones (spec S6)."""

Code = Annotated[str, "error code"]
"""The code of an error. Some vendors send a number, which becomes its digits: errors must stay readable."""

W = TypeVar("W", bound="Wire")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Wire(Struct, kw_only=True, frozen=True, gc=False):
    """A value of the protocol. Three kinds of field:

    - `x: T = default` is always written; absent (or a null that `T` does not allow) reads as the default.
    - `x: T | UnsetType = UNSET` is written when it has a value. `UNSET` is false, so `if value.x:` works.
    - `x: T` must be there. Its class says `kw_only=True`, which msgspec does not inherit.
    """

    implied_by: ClassVar[str] = ""
    """A value without a `type` is of this type when it has a field of this name."""

    catch_all: ClassVar[bool] = False
    """True for the member of a union that takes what no other knows. It gives nulls back as they came."""

    extra: dict[str, Any] | UnsetType = UNSET
    """Fields that the type does not declare, as they came. Written back beside the others."""


def decode(data: bytes | str, type: type[W]) -> W:
    """Read one JSON document as `type`."""
    return read(parse(data), type)


def parse(data: bytes | str) -> Any:
    """One JSON document as dicts, lists and scalars."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not valid JSON ({error})") from None
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
_leaves: set[type] = set()
"""Types that have been seen to be leaves."""


def encode(value: Any) -> bytes:
    """One line of JSON. What has no room for unknown fields, such as a text delta, takes the fast path."""
    kind = value.__class__
    if kind in _leaves and value.extra is UNSET:
        return _encode(value)
    if _is_leaf(kind):
        _leaves.add(kind)
    return _encode(_spread(value))


def to_builtins(value: Any) -> Any:
    """The same value as dicts, lists and scalars."""
    return msgspec.to_builtins(_spread(value))


def _is_leaf(kind: type) -> bool:
    """True for a Struct whose fields cannot hold another Struct: nothing below it can carry `extra`."""
    return issubclass(kind, Wire) and not _deep_fields(kind)


@cache
def _deep_fields(kind: type[Wire]) -> tuple[str, ...]:
    """The fields that can hold another Struct: only below these is an `extra` to be looked for."""
    hints = get_type_hints(kind)
    return tuple(name for name in kind.__struct_fields__ if not _holds_no_struct(hints[name]))


def _holds_no_struct(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return False
    return all(_holds_no_struct(argument) for argument in get_args(hint))


def _spread(value: Any) -> Any:
    """`value` with every `extra` laid out among its neighbours; `value` itself where there is none below."""
    if isinstance(value, Wire):
        changed: dict[str, Any] = {}
        for name in _deep_fields(value.__class__):
            old = getattr(value, name)
            if (new := _spread(old)) is not old:
                changed[name] = new
        return value if value.extra is UNSET and not changed else _laid_out(value, changed)
    if isinstance(value, list):
        spread = [_spread(each) for each in value]
        return spread if any(new is not old for new, old in zip(spread, value, strict=True)) else value
    return value


def _laid_out(value: Wire, changed: dict[str, Any]) -> dict[str, Any]:
    fields = {
        name: each
        for name in value.__struct_fields__
        if name != "extra" and (each := getattr(value, name)) is not UNSET
    }
    # An unknown value may hold under a declared name what that has no room for: it goes back as it came.
    return fields | changed | (value.extra or {})


@cache
def _reader(hint: Any) -> Reader:
    """The reader for a type annotation."""
    members = _members(hint)
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
    """The types that `hint` is a union of, but for `UnsetType`, which never comes over the wire."""
    union = get_origin(hint) is Union or get_origin(hint) is types.UnionType
    return tuple(member for member in (get_args(hint) if union else (hint,)) if member is not UnsetType)


def _json_class(hint: Any) -> Any:
    """What a value of this type is in decoded JSON; a Struct stands for itself."""
    origin = get_origin(hint)
    if origin is Annotated:
        return get_args(hint)[0]
    return origin or hint


def _scalar_reader(kind: type, called: str) -> Reader:
    def read_scalar(raw: Any) -> Any:
        if raw.__class__ is not kind:
            raise DecodeError(f"expected {called}, got {_called(raw)}")
        return raw

    return read_scalar


def _read_number(raw: Any) -> Any:
    if raw.__class__ is not float and raw.__class__ is not int:
        raise DecodeError(f"expected a number, got {_called(raw)}")
    return raw


def _read_integer(raw: Any) -> Any:
    if raw.__class__ is float and raw.is_integer():
        return int(raw)
    if raw.__class__ is not int:
        raise DecodeError(f"expected an integer, got {_called(raw)}")
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

_ALSO_TAKES: dict[Any, type] = {int: float, float: int, Seconds: float, Code: int}
"""What a scalar is read from beside its own JSON type."""

_CALLED = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    types.NoneType: "null",
}


def _called(raw: Any) -> str:
    return _CALLED[raw.__class__]


def _list_reader(read_each: Reader) -> Reader:
    def read_list(raw: Any) -> Any:
        if raw.__class__ is not list:
            raise DecodeError(f"expected an array, got {_called(raw)}")
        values: list[Any] = []
        for each in raw:
            try:
                values.append(read_each(each))
            except DecodeError as error:
                raise error.within(f"[{len(values)}]") from None
        return values

    return read_list


def _struct_reader(kind: type[Wire]) -> Reader:
    """Reads an object. The table is made on first use, so types may refer to themselves."""
    table: dict[str, tuple[Reader, bool]] | None = None
    # Plain values without an unknown field among them are msgspec's to read, in a third of the time. It would
    # make 1.0 of a 1 for a float, so those are not plain.
    plain = _is_leaf(kind) and not any(float in _members(hint) for hint in get_type_hints(kind).values())

    def read_struct(raw: Any) -> Any:
        nonlocal table
        if table is None:
            table = _field_table(kind)
        if raw.__class__ is not dict:
            raise DecodeError(f"expected an object, got {_called(raw)}")
        if plain and raw.keys() <= table.keys():
            try:
                return msgspec.convert(raw, kind)
            except msgspec.ValidationError:
                pass  # a null or a wrong type: reading field by field tells which
        return _read_fields(raw, kind, table)

    return read_struct


def _field_table(kind: type[Wire]) -> dict[str, tuple[Reader, bool]]:
    """How each field is read, and whether it may be null."""
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
    """Reads a union: scalars and lists by their JSON type, objects by their `type` field.

    Among the object members the one whose `type` has no name by default is the catch-all.
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
    expected = " or ".join(_CALLED[kind] for kind in by_class)
    for member in members:
        if member in _ALSO_TAKES:
            by_class.setdefault(_ALSO_TAKES[member], _reader(member))
    nullable = types.NoneType in members

    def read_union(raw: Any) -> Any:
        if raw is None and nullable:
            return None
        reader = by_class.get(raw.__class__)
        if reader is None:
            raise DecodeError(f"expected {expected}, got {_called(raw)}")
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
