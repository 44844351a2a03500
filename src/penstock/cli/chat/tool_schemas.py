"""The parameters of a function: as the JSON Schema that a model sees, and as what reads its arguments.

Both come from the annotations, so an argument that does not fit the schema never reaches the function: the
model is told what is wrong with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

_TAKEN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NONE = inspect.Parameter.empty
_TYPES = {str: "string", int: "integer"}


class Arguments:
    """What a function takes."""

    def __init__(self, fields: type[Struct], schema: dict[str, Any]) -> None:
        self._fields = fields
        self.schema = schema

    def read(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for a call, each as its annotation says; what was not given is left to the function.

        Raises `msgspec.ValidationError`, whose text says what is wrong.
        """
        given = msgspec.convert(dict(input), self._fields, dec_hook=_read_other)
        named = {name: getattr(given, name) for name in self._fields.__struct_fields__}
        return {name: value for name, value in named.items() if value is not UNSET}


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Raises TypeError, ValueError or NameError for a function that cannot be described."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    fields: list[Any] = []
    for name, parameter in parameters.items():
        if parameter.kind not in _TAKEN:
            raise TypeError(f"{parameter} has no place in a schema: every parameter needs a name of its own")
        annotation = _described(hints.get(name, Any))
        if parameter.default is _NONE:
            fields.append((name, annotation))
        else:
            absent = (UnsetType, None) if parameter.default is None else (UnsetType,)
            fields.append((name, Union[(annotation, *absent)], UNSET))
    made = msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    return Arguments(made, _schema(made, parameters))


def _described(annotation: Any) -> Any:
    """`Annotated[str, "the city"]`: a text beside a type describes the parameter."""
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
            described["type"] = kind  # some endpoints want one beside the choices
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
    """A path is a string; nothing else that is not JSON can be asked for."""
    if kind is Path:
        return {"type": "string"}
    raise TypeError(f"a parameter cannot be a {getattr(kind, '__name__', kind)}: use what JSON has")


def _read_other(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
