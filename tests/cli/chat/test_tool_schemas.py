"""JSON Schemas and arguments from the annotations of a function."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from penstock.cli.chat.tool_schemas import arguments_of


@dataclass
class Point:
    x: int
    y: int = 0


class Colour(Enum):
    RED = "red"


def weather(
    city: Annotated[str, "where"],
    days: int = 1,
    unit: Literal["C", "F"] = "C",
    wind: bool = False,
    limits: list[float] | None = None,
) -> None: ...


def plot(at: Point, *, file: Path = Path("x"), colour: Colour = Colour.RED, note: Any = None) -> None: ...


def without_parameters() -> None: ...


def test_annotations_and_defaults_become_a_schema() -> None:
    assert arguments_of(weather).schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer", "default": 1},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "wind": {"type": "boolean", "default": False},
            "limits": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_classes_are_definitions_and_paths_are_strings() -> None:
    schema = arguments_of(plot).schema
    assert schema["properties"]["at"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["file"] == {"type": "string"}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["required"] == ["at"]


def test_a_function_without_parameters_has_an_empty_schema() -> None:
    assert arguments_of(without_parameters).schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_arguments_are_converted_and_omitted_ones_left_to_the_function() -> None:
    assert arguments_of(weather).read({"city": "Oslo", "limits": [1]}) == {"city": "Oslo", "limits": [1.0]}
    assert arguments_of(plot).read({"at": {"x": 3}, "file": "y", "colour": "red", "note": None}) == {
        "at": Point(3, 0),
        "file": Path("y"),
        "colour": Colour.RED,
        "note": None,
    }


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "missing required field `city`"),
        ({"city": 5}, r"Expected `str`, got `int` - at `\$.city`"),
        ({"city": "x", "unit": "K"}, "Invalid enum value 'K'"),
        ({"city": "x", "speed": 1}, "unknown field `speed`"),
    ],
)
def test_arguments_that_do_not_match_are_refused(input: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        arguments_of(weather).read(input)


def test_a_path_must_be_a_string() -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `str`, got `int`"):
        arguments_of(plot).read({"at": {"x": 1}, "file": 5})


def many(*more: int) -> None: ...
def named(**more: int) -> None: ...
def positional(a: int, /) -> None: ...
def number(a: complex) -> None: ...
def unknown(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (many, TypeError, "every parameter must be passable by name"),
        (named, TypeError, "every parameter must be passable by name"),
        (positional, TypeError, "every parameter must be passable by name"),
        (number, TypeError, "a parameter cannot be a complex: use a JSON type"),
        (unknown, NameError, "name 'Missing' is not defined"),
    ],
)
def test_parameters_without_a_schema_are_refused(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        arguments_of(function)
