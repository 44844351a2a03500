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
    Any,
    ClassVar,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, Struct, StructMeta, UnsetType

from penstock.errors import DecodeError

Reader = Callable[[Any], Any]
"""Turns a decoded JSON value into a typed one, or raises `DecodeError`."""

W = TypeVar("W", bound="Wire")


class WireMeta(StructMeta):
    """Makes every Wire type frozen and keyword-only; msgspec inherits the first and not the second."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **{"frozen": True, "kw_only": True, **config})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Wire(Struct, metaclass=WireMeta, frozen=True):
    """A value of the protocol. Three kinds of field:

    - `x: T = default` is always written; absent (or a null that `T` does not allow) reads as the default.
    - `x: T | UnsetType = UNSET` is written when it has a value. `UNSET` is false, so `if value.x:` works.
    - `x: T` must be there.
    """

    implied_by: ClassVar[str] = ""
    """A value without a `type` is of this type when it has a field of this name."""

    extra: dict[str, Any] | UnsetType = UNSET
    """Fields that the type does not declare, as they came. Written back beside the others."""


def decode(data: bytes | str, type: type[W]) -> W:
    """Read one JSON document as `type`."""
    try:
        raw = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not valid JSON ({error})") from None
    return read(raw, type)


def read(raw: Any, type: type[W]) -> W:
    """Read a decoded JSON value as `type`."""
    value: W = _reader(type)(raw)
    return value


_encode = msgspec.json.Encoder().encode
_leaves: dict[type, bool] = {}


def encode(value: Any) -> bytes:
    """One line of JSON. What has no room for unknown fields, such as a text delta, takes the fast path."""
    kind = value.__class__
    if kind not in _leaves:
        _leaves[kind] = _is_leaf(kind)
    if _leaves[kind] and value.extra is UNSET:
        return _encode(value)
    return _encode(_spread(value))


def to_builtins(value: Any) -> Any:
    """The same value as dicts, lists and scalars."""
    return msgspec.to_builtins(_spread(value))


def _is_leaf(kind: type) -> bool:
    """True for a Struct whose fields cannot hold another Struct: nothing below it can carry `extra`."""
    if not issubclass(kind, Wire):
        return False
    hints = get_type_hints(kind)
    return all(_holds_no_struct(hints[name]) for name in kind.__struct_fields__)


def _holds_no_struct(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return False
    return all(_holds_no_struct(argument) for argument in get_args(hint))


def _spread(value: Any) -> Any:
    """`value` with every `extra` laid out among its neighbours; `value` itself where there is none below."""
    if isinstance(value, Wire):
        fields: dict[str, Any] = {}
        changed = False
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if old is UNSET:
                continue
            if name == "extra":
                changed = True
                continue
            new = fields[name] = _spread(old)
            changed = changed or new is not old
        if not changed:
            return value
        if value.extra:
            fields.update(value.extra)
        return fields
    if isinstance(value, list):
        spread = [_spread(each) for each in value]
        return spread if any(new is not old for new, old in zip(spread, value, strict=True)) else value
    return value


@cache
def _reader(hint: Any) -> Reader:
    """The reader for a type annotation."""
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return _union_reader(tuple(member for member in get_args(hint) if member is not UnsetType))
    if origin is list:
        return _list_reader(_reader(get_args(hint)[0]))
    if origin is dict or is_typeddict(hint):
        return _scalar_reader(dict, "an object")
    if isinstance(hint, type) and issubclass(hint, Wire):
        return _struct_reader(hint)
    return _SCALARS[hint]


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
    if raw.__class__ is float and raw.is_integer():  # vendors send created_at as a float
        return int(raw)
    if raw.__class__ is not int:
        raise DecodeError(f"expected an integer, got {_called(raw)}")
    return raw


def _read_anything(raw: Any) -> Any:
    return raw


_SCALARS: dict[Any, Reader] = {
    str: _scalar_reader(str, "a string"),
    bool: _scalar_reader(bool, "true or false"),
    int: _read_integer,
    float: _read_number,
    Any: _read_anything,
    object: _read_anything,
}

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
    """Reads an object field by field. The table is built on first use, so types may refer to themselves."""
    table: dict[str, tuple[Reader, bool]] = {}
    required: list[str] = []

    def prepare() -> None:
        hints = get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            if field.name == "extra":
                continue
            hint = hints[field.name]
            nullable = hint is Any or hint is types.NoneType or types.NoneType in get_args(hint)
            table[field.name] = (_reader(hint), nullable)
            if field.required:
                required.append(field.name)

    def read_struct(raw: Any) -> Any:
        if not table:
            prepare()
        if raw.__class__ is not dict:
            raise DecodeError(f"expected an object, got {_called(raw)}")
        values: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in raw.items():
            entry = table.get(name)
            if entry is None:
                extra[name] = value
            elif value is None:
                if entry[1]:
                    values[name] = None
            else:
                try:
                    values[name] = entry[0](value)
                except DecodeError as error:
                    raise error.within(name) from None
        for name in required:
            if name not in values:
                raise DecodeError("is required", name)
        if extra:
            values["extra"] = extra
        return kind(**values)

    return read_struct


def _union_reader(members: tuple[Any, ...]) -> Reader:
    """Reads a union: scalars and lists by their JSON type, objects by their `type` field.

    Among the object members the one whose `type` defaults to "" is the catch-all.
    """
    by_class: dict[type, Reader] = {}
    structs: dict[str, type[Wire]] = {}
    for member in members:
        if isinstance(member, type) and issubclass(member, Wire):
            structs[_type_name(member)] = member
        elif member is not types.NoneType:
            by_class[get_origin(member) or member] = _reader(member)
    if float in by_class:
        by_class[int] = by_class[float]
    if structs:
        by_class[dict] = _object_union_reader(structs)
    expected = " or ".join(_CALLED[kind] for kind in by_class)
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
