"""Derive a JSON Schema and an argument parser from a function's annotations.

An argument that does not match the schema never reaches the function: the error is returned to the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

_SUPPORTED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NONE = inspect.Parameter.empty
_TYPES = {str: "string", int: "integer"}


class Arguments:
    """The parameters of a function."""

    def __init__(self, fields: type[Struct], schema: dict[str, Any]) -> None:
        self._fields = fields
        self.schema = schema

    def read(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a call's input to the annotated types; omitted arguments use the function's defaults.

        Raises `msgspec.ValidationError`, whose message describes the problem.
        """
        given = msgspec.convert(dict(input), self._fields, dec_hook=_read_other)
        named = {name: getattr(given, name) for name in self._fields.__struct_fields__}
        return {name: value for name, value in named.items() if value is not UNSET}


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Read a function's parameters; raise TypeError, ValueError or NameError if they have no JSON Schema."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    fields: list[Any] = []
    for name, parameter in parameters.items():
        if parameter.kind not in _SUPPORTED_KINDS:
            raise TypeError(f"{parameter} cannot be in a schema: every parameter must be passable by name")
        annotation = _described(hints.get(name, Any))
        if parameter.default is _NONE:
            fields.append((name, annotation))
        else:
            absent = (UnsetType, None) if parameter.default is None else (UnsetType,)
            fields.append((name, Union[(annotation, *absent)], UNSET))
    struct = msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    return Arguments(struct, _schema(struct, parameters))


def _described(annotation: Any) -> Any:
    """Use the text in `Annotated[str, "the city"]` as the description of the parameter."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *notes = get_args(annotation)
    described = [Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *described)]


def _schema(fields: type[Struct], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(
        [fields], schema_hook=_schema_of_other, ref_template="#/$defs/{name}"
    )
    schema = components.pop(fields.__name__)
    schema.pop("title", None)
    for name, described in schema["properties"].items():
        choices = {type(choice) for choice in described.get("enum", ())}
        if len(choices) == 1 and (kind := _TYPES.get(choices.pop())):
            described["type"] = kind  # some endpoints require a type next to enum
        default = parameters[name].default
        if default is not _NONE and default is not None and _is_json(default):
            described["default"] = default
    return {**schema, "$defs": components} if components else schema


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _schema_of_other(kind: type) -> dict[str, Any]:
    """Return the schema of a type that msgspec cannot describe: only `Path` is supported."""
    if kind is Path:
        return {"type": "string"}
    raise TypeError(f"a parameter cannot be a {getattr(kind, '__name__', kind)}: use a JSON type")


def _read_other(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
