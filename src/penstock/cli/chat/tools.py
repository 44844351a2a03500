"""Load tools from a Python file: every public function with a docstring, or those listed in `TOOLS`.

`tool_schemas.py` derives the schema that the model sees from a function's annotations.
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
    """Return the tools of a file, in order; raise `UsageError` with file and line if one is invalid."""
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
        raise UsageError(f"--tools: {path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look up their module
    sys.path.insert(0, str(file.parent))  # so that it can import modules next to it, like `python FILE`
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {_message(error)}".rstrip(": ")
        raise UsageError(f"--tools: {path}:{_line_of(error, file)}: {reason}") from None
    return module


def _message(error: BaseException) -> str:
    """Return the message; for a syntax error without the file and line that `str` adds."""
    return (isinstance(error, SyntaxError) and error.msg) or str(error)


def _line_of(error: BaseException, file: Path) -> int:
    """Return the innermost line of the file in the traceback."""
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
            and each.__module__ == module.__name__  # not an imported function
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
        raise UsageError(f"--tools: {place}: {name!r} is not a valid tool name: use letters, digits and _")
    try:
        arguments = arguments_of(function)
    except (TypeError, ValueError, NameError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"--tools: {place}: {name} cannot be a tool: {reason}") from None
    spec = ChatTool(name, inspect.getdoc(function) or "", arguments.schema)
    return Tool(spec, _runner(function, arguments))


def _runner(function: _Function, arguments: Arguments) -> Callable[[Mapping[str, Any]], Awaitable[Output]]:
    async def run(input: Mapping[str, Any]) -> Output:
        keywords = arguments.read(input)
        if inspect.iscoroutinefunction(function):
            return as_output(await function(**keywords))
        return as_output(await in_thread(lambda: function(**keywords)))

    return run


def as_output(value: Any) -> Output:
    """Convert a return value for the model: text unchanged, anything else as JSON if possible."""
    if value is None or isinstance(value, str | TextPart | DataPart):
        return value
    if isinstance(value, list) and value and all(isinstance(each, TextPart | DataPart) for each in value):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
