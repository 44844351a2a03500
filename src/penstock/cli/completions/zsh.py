"""The completion script for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.cli.completions.command_words import CommandWords, CompletedArgument

_START = """\
#compdef penstock
# zsh completion for penstock; `penstock completions zsh` prints it.
"""
_END = """\
if [[ $funcstack[1] == _penstock ]]; then  # loaded by compinit
    _penstock "$@"
else
    compdef _penstock penstock
fi"""


def zsh_script(commands: Sequence[CommandWords]) -> str:
    return "\n".join([_START, *(line for each in commands for line in _function(each)), _END])


def _function(command: CommandWords) -> Iterator[str]:
    """Yield the function that completes the words after this command."""
    yield f"{_function_name(command.path)}() {{"
    if command.subcommands:
        yield '    local curcontext="$curcontext" context state state_descr line'
        yield "    typeset -A opt_args"
    specs = [spec for option in command.options for spec in _option(option)]
    for number, argument in enumerate(command.positionals, 1):
        place = "*" if argument.is_repeated else str(number)
        specs.append(_quoted(f"{place}:{_escaped(argument.title)}:{_action(argument)}"))
    if command.subcommands:
        specs += ["'1: :->subcommand'", "'*:: :->arguments'"]
    yield "    _arguments -C -s -S \\" if command.subcommands else "    _arguments -s -S \\"
    yield " \\\n".join(f"        {spec}" for spec in specs)
    if command.subcommands:
        yield from _dispatch(command)
    yield "}\n"


def _dispatch(command: CommandWords) -> Iterator[str]:
    yield "    case $state in"
    yield "        subcommand)"
    yield "            local -a subcommands"
    yield "            subcommands=("
    for name, summary in command.subcommands.items():
        yield "                " + _quoted(f"{name}:{summary}")
    yield "            )"
    yield "            _describe -t commands command subcommands"
    yield "            ;;"
    yield "        arguments)"
    yield "            case $words[1] in"
    for name in command.subcommands:
        yield f"                {name}) {_function_name((*command.path, name))} ;;"
    yield "            esac"
    yield "            ;;"
    yield "    esac"


def _function_name(path: tuple[str, ...]) -> str:
    return "_".join(["_penstock", *(word.replace("-", "_") for word in path)])


def _option(option: CompletedArgument) -> Iterator[str]:
    """Yield one specification for each spelling. One spelling excludes the other; an option with a value may
    be repeated, because the parser does not know which may not."""
    before = f"({' '.join(option.flags)})" if len(option.flags) > 1 else ""
    for flag in option.flags:
        if option.kind == "none":
            yield _quoted(f"{before}{flag}[{_escaped(option.help)}]")
        else:
            sign = "=" if flag.startswith("--") else "+"
            value = f":{_escaped(option.title)}:{_action(option)}"
            yield _quoted(f"{before or '*'}{flag}{sign}[{_escaped(option.help)}]{value}")


def _action(argument: CompletedArgument) -> str:
    """Return how zsh finds the values."""
    words = f"({' '.join(argument.values)})" if argument.values else ""
    if argument.kind == "file":
        return "_files"
    if argument.kind == "variable":
        return "_parameters -g '*export*'"
    return words or " "


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
