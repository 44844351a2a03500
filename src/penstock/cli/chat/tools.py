"""Tools from a Python file: every public function with a docstring, or those that its `TOOLS` lists.

The file is imported here; `tool_schemas.py` makes of a function's annotations what the model sees of it.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from penstock.cli import UsageError
from penstock.cli.chat.tool_schemas import Arguments, arguments_of
from penstock.parts.parts import ChatTool, DataPart, TextPart
from penstock.provider.loop import Output, Tool, in_thread

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_Function = Callable[..., Any]


def load_tools(path: str) -> list[Tool]:
    """The tools in a file, in its order. Raises `UsageError` with the file and the line that is wrong."""
    tools = [_tool(function, path) for function in _functions(_import(path), path)]
    if not tools:
        raise UsageError(f"--tools: {path} has no tools: a tool is a public function with a docstring")
    return tools


def _import(path: str) -> ModuleType:
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"--tools: there is no file {path}")
    name = f"penstock_tools_{re.sub(r'[^A-Za-z0-9_]', '_', file.stem)}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"--tools: {path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look up where they were defined
    sys.path.insert(0, str(file.parent))  # so that it can import its neighbours, as `python FILE` would
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {_message(error)}".rstrip(": ")
        raise UsageError(f"--tools: {path}:{_line_of(error, file)}: {what}") from None
    return module


def _message(error: BaseException) -> str:
    """A syntax error's own text has the file and the line once more."""
    return (isinstance(error, SyntaxError) and error.msg) or str(error)


def _line_of(error: BaseException, file: Path) -> int:
    """The last line of the file that had a part in it."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == str(file)), 1)


def _functions(module: ModuleType, path: str) -> list[_Function]:
    listed = getattr(module, "TOOLS", None)
    if listed is None:
        return [
            each
            for name, each in vars(module).items()
            if inspect.isfunction(each)
            and each.__module__ == module.__name__  # not what the file imports
            and not name.startswith("_")
            and inspect.getdoc(each)
        ]
    if not isinstance(listed, Sequence) or not all(map(inspect.isroutine, listed)):
        raise UsageError(f"--tools: {path}: TOOLS must be a list of functions")
    return [*listed]


def _tool(function: _Function, path: str) -> Tool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = f"{path}:{code.co_firstlineno}" if code else path
    name = function.__name__
    if not _NAME.fullmatch(name):
        raise UsageError(f"--tools: {place}: {name!r} cannot be a tool's name: use letters, digits and _")
    try:
        arguments = arguments_of(function)
    except (TypeError, ValueError, NameError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"--tools: {place}: {name} cannot be a tool: {reason}") from None
    spec = ChatTool(name, inspect.getdoc(function) or "", arguments.schema)
    return Tool(spec, _runner(function, arguments))


def _runner(function: _Function, arguments: Arguments) -> Callable[[Mapping[str, Any]], Awaitable[Output]]:
    async def run(input: Mapping[str, Any]) -> Output:
        given = arguments.read(input)
        if inspect.iscoroutinefunction(function):
            return as_output(await function(**given))
        return as_output(await in_thread(lambda: function(**given)))

    return run


def as_output(value: Any) -> Output:
    """What a function gave back, for the model: text as it is, everything else as JSON where that can be."""
    if value is None or isinstance(value, str | TextPart | DataPart):
        return value
    if isinstance(value, list) and value and all(isinstance(each, TextPart | DataPart) for each in value):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
