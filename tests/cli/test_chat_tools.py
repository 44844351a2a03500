"""Tools from a Python file: what the model sees of a function, and what the function gets of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import UsageError
from penstock.cli.chat.tools import load_tools
from penstock.parts.parts import DataPart, TextPart, ToolCallPart
from penstock.provider.loop import Tool

FILE = '''\
"""Tools for the tests."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal, Optional


@dataclass
class Point:
    x: int
    y: int = 0


def weather(
    city: Annotated[str, "where"],
    days: int = 1,
    unit: Literal["C", "F"] = "C",
    wind: bool = False,
    limits: Optional[list[float]] = None,
) -> dict[str, object]:
    """What the weather is.

    For some days."""
    return {"city": city, "days": days, "unit": unit, "wind": wind, "limits": limits}


async def later(seconds: float, note: dict[str, Any], at: Point, *, file: Path = Path("x")) -> str:
    """Wait."""
    await asyncio.sleep(0)
    return f"{seconds} {note} {at} {file!r}"


def nothing() -> None:
    """Does nothing."""


def without_docstring() -> None: ...


def _private() -> None:
    """Not a tool."""
'''


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in load(tmp_path, FILE)}


def load(folder: Path, text: str, name: str = "tools.py") -> list[Tool]:
    (folder / name).write_text(text)
    return load_tools(str(folder / name))


def run(tool: Tool, **input: Any) -> Any:
    async def call() -> Any:
        given: Any = tool.run(input)
        return await given

    return asyncio.run(call())


def test_public_functions_with_a_docstring_are_tools(tools: Mapping[str, Tool]) -> None:
    assert [*tools] == ["weather", "later", "nothing"]
    assert tools["weather"].spec.description == "What the weather is.\n\nFor some days."


def test_the_schema_is_made_of_the_annotations(tools: Mapping[str, Tool]) -> None:
    assert tools["weather"].spec.input_schema == {
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
    schema = tools["later"].spec.input_schema
    assert schema is not None
    assert schema["properties"]["at"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["file"] == {"type": "string"}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert tools["nothing"].spec.input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_plain_and_async_functions_run(tools: Mapping[str, Tool]) -> None:
    told = run(tools["weather"], city="Oslo", limits=[1, 2.5])
    assert told == '{"city":"Oslo","days":1,"unit":"C","wind":false,"limits":[1.0,2.5]}'
    told = run(tools["later"], seconds=1, note={"a": 1}, at={"x": 3}, file="y")
    assert told == "1.0 {'a': 1} Point(x=3, y=0) PosixPath('y')"
    assert run(tools["nothing"]) is None


@pytest.mark.parametrize(
    ("input", "told"),
    [
        ({}, "missing required field `city`"),
        ({"city": 5}, "Expected `str`, got `int` - at `$.city`"),
        ({"city": "x", "unit": "K"}, "Invalid enum value 'K'"),
        ({"city": "x", "speed": 1}, "unknown field `speed`"),
    ],
)
def test_a_wrong_argument_never_reaches_the_function(
    tools: Mapping[str, Tool], input: dict[str, Any], told: str
) -> None:
    with pytest.raises(Exception, match=told.replace("$", r"\$")):
        run(tools["weather"], **input)


def test_tools_lists_what_is_a_tool(tmp_path: Path) -> None:
    text = "def b(): ...\ndef a():\n    '''Doc.'''\nTOOLS = [b]\n"
    assert [tool.spec.name for tool in load(tmp_path, text)] == ["b"]


def test_a_tool_may_give_back_what_it_likes(tmp_path: Path) -> None:
    text = (
        "from penstock.parts.parts import DataPart, TextPart\n"
        "def f(kind: int):\n    '''Doc.'''\n"
        "    return [[], [1, 'a'], DataPart(b'x', 'image/png'), [TextPart('t')], object, {1j}][kind]\n"
        "def leave():\n    '''Doc.'''\n    raise SystemExit(3)\n"
    )
    tool, leave = load(tmp_path, text)
    given = [run(tool, kind=kind) for kind in range(6)]
    assert given[:4] == ["[]", '[1,"a"]', DataPart(b"x", "image/png"), [TextPart("t")]]
    assert given[4:] == ["<class 'object'>", "{1j}"]
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        run(leave)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("x = 1\nimport nothing_of_this_name\n", 2, "ModuleNotFoundError"),
        ("def f(:\n", 1, "SyntaxError: invalid syntax"),
        ("\n\nraise SystemExit(3)\n", 3, "SystemExit: 3"),
        ("def f():\n    g()\ndef g():\n    1 / 0\nf()\n", 4, "ZeroDivisionError"),
        ("\ndef f(*more):\n    '''Doc.'''\n", 2, "f cannot be a tool: *more cannot be in a schema"),
        ("\ndef f(a: complex):\n    '''Doc.'''\n", 2, "a parameter cannot be a complex"),
        ("\ndef f(a: 'Missing'):\n    '''Doc.'''\n", 2, "name 'Missing' is not defined"),
        ("\ndef fünf():\n    '''Doc.'''\n", 2, "'fünf' is not a valid tool name"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert f"tools.py:{line}: " in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("tools.py", "x = 1", "has no tools"),
        ("tools.py", "TOOLS = [1]", "TOOLS must be a list of functions"),
        ("tools.txt", "x = 1", "its name must end in .py"),
    ],
)
def test_a_file_without_tools_is_refused(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        load(tmp_path, text, name)


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(UsageError, match=r"there is no file nowhere\.py"):
        load_tools("nowhere.py")


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "penstock_neighbour.py").write_text("ANSWER = 42\n")
    text = "from penstock_neighbour import ANSWER\ndef f() -> int:\n    '''Doc.'''\n    return ANSWER\n"
    (tool,) = load(tmp_path, text)
    assert run(tool) == "42"
    assert ToolCallPart("c", "f", {}).name == tool.spec.name
