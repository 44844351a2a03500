"""What can be written on the command line: every command with its options and arguments, from the parsers."""

from __future__ import annotations

import argparse
import re
from typing import Literal

from msgspec import Struct

from penstock.cli import COMMANDS, build_parser
from penstock.cli.parser import CommandParser
from penstock.dialects.presets import PRESETS

ValueKind = Literal["none", "file", "variable", "other"]

_FILE = re.compile(r"(?:^|\|)(?:FILE|PATH|REQUEST)\b")
"""Metavars of arguments that are files, such as `FILE|-`, `PATH|none` and `REQUEST.json|-`."""
_CONSTANT = re.compile(r"[a-z]+")
"""Parts of a metavar that are values themselves, such as `none` in `PATH|none`."""
_VALUES = {"preset": tuple(sorted(PRESETS))}
"""The values of arguments that are checked later than by their parser."""
_VARIABLES = ("api_key_env",)


class CompletedArgument(Struct, frozen=True, kw_only=True):
    """An option, or a positional argument, which has no flags."""

    flags: tuple[str, ...] = ()
    title: str = ""
    """What its value is called in the help."""
    help: str = ""
    kind: ValueKind = "other"
    """`none`: it takes no value. `variable`: the name of an environment variable."""
    values: tuple[str, ...] = ()
    """The possible values, as far as they are known. A file may also have other names."""
    is_repeated: bool = False


class CommandWords(Struct, frozen=True, kw_only=True):
    path: tuple[str, ...]
    """The words of the command: empty for `penstock` itself, `("store", "prune")` for an action."""
    options: tuple[CompletedArgument, ...]
    positionals: tuple[CompletedArgument, ...]
    subcommands: dict[str, str]
    """The words that may follow, each with its description."""

    @property
    def name(self) -> str:
        return " ".join(self.path)


def all_commands() -> list[CommandWords]:
    """Return `penstock` itself, every command, and their actions."""
    found: list[CommandWords] = []
    _collect(build_parser(*COMMANDS), (), found)
    return found


def _collect(parser: CommandParser, path: tuple[str, ...], found: list[CommandWords]) -> None:
    inner = _parsers(parser)
    arguments = [_argument(action) for action in parser.actions() if not _is_subparsers(action)]
    found.append(
        CommandWords(
            path=path,
            options=tuple(each for each in arguments if each.flags),
            positionals=tuple(each for each in arguments if not each.flags),
            subcommands={
                name: COMMANDS[name] if not path else each.description or "" for name, each in inner.items()
            },
        )
    )
    for name, each in inner.items():
        _collect(each, (*path, name), found)


def _parsers(parser: CommandParser) -> dict[str, CommandParser]:
    return {
        name: each
        for action in parser.actions()
        if isinstance(action.choices, dict)
        for name, each in action.choices.items()
        if isinstance(each, CommandParser)
    }


def _is_subparsers(action: argparse.Action) -> bool:
    return isinstance(action.choices, dict)


def _argument(action: argparse.Action) -> CompletedArgument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    is_file = bool(_FILE.search(metavar))
    kind: ValueKind = "file" if is_file else "other"
    if action.nargs == 0:
        kind = "none"
    elif action.dest in _VARIABLES:
        kind = "variable"
    values = tuple(map(str, action.choices)) if action.choices else _VALUES.get(action.dest, ())
    if is_file:
        values = tuple(part for part in metavar.split("|") if _CONSTANT.fullmatch(part))
    return CompletedArgument(
        flags=tuple(action.option_strings),
        title=metavar,
        help=(action.help or "").replace("%%", "%"),
        kind=kind,
        values=values,
        is_repeated=action.nargs in ("*", "+"),
    )
