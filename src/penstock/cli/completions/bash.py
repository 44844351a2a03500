"""The completion script for bash 3.2 and later, which needs nothing but bash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.cli.completions.command_words import CommandWords, CompletedArgument

_SCRIPT = r"""# bash completion for penstock; `penstock completions bash` prints it.

# What may follow a command: sets subcommands, flags, and valued, the flags that take a value.
_penstock_command() {
    subcommands="" flags="" valued=""
    case "$1" in
@commands@
    esac
}

# The values of an option or of an argument, which are numbered from 0: sets values and kind.
_penstock_values() {
    values="" kind=""
    case "$1" in
@values@
    esac
}

_penstock() {
    local current="${COMP_WORDS[COMP_CWORD]}" command="" option="" position=0 index word
    local subcommands flags valued values kind
    COMPREPLY=()
    _penstock_command ""
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        if [[ $word == "=" ]]; then  # bash splits --option=value into three words
            continue
        elif [[ -n $option ]]; then
            option=""
        elif [[ " $valued " == *" $word "* ]]; then
            option="$word"
        elif [[ $word == -* ]]; then
            continue
        elif [[ " $subcommands " == *" $word "* ]]; then
            command="${command:+$command }$word"
            position=0
            _penstock_command "$command"
        else
            position=$((position + 1))
        fi
    done
    [[ $current == "=" ]] && current=""
    if [[ -z $option && $current == -* ]]; then
        values="$flags"
    elif [[ -z $option && -n $subcommands ]]; then
        values="$subcommands"
    else
        _penstock_values "$command:${option:-$position}"
    fi
    local IFS=$'\n'
    case "$kind" in
        file)
            compopt -o filenames 2> /dev/null
            COMPREPLY=($(compgen -f -- "$current"))
            ;;
        variable) COMPREPLY=($(compgen -e -- "$current")) ;;
    esac
    IFS=$' \n'
    COMPREPLY+=($(compgen -W "$values" -- "$current"))
}

complete -F _penstock penstock"""


def bash_script(commands: Sequence[CommandWords]) -> str:
    return _SCRIPT.replace("@commands@", "\n".join(map(_command, commands))).replace(
        "@values@", "\n".join(line for each in commands for line in _values(each))
    )


def _command(command: CommandWords) -> str:
    flags = " ".join(flag for option in command.options for flag in option.flags)
    valued = " ".join(flag for each in command.options if each.kind != "none" for flag in each.flags)
    assignments = f'subcommands="{" ".join(command.subcommands)}" flags="{flags}" valued="{valued}"'
    return f'        "{command.name}") {assignments} ;;'


def _values(command: CommandWords) -> Iterable[str]:
    for option in command.options:
        yield from _case("|".join(f'"{command.name}:{flag}"' for flag in option.flags), option)
    for number, argument in enumerate(command.positionals):
        pattern = f'"{command.name}:"[0-9]*' if argument.is_repeated else f'"{command.name}:{number}"'
        yield from _case(pattern, argument)


def _case(pattern: str, argument: CompletedArgument) -> Iterable[str]:
    kind = argument.kind if argument.kind in ("file", "variable") else ""
    if kind or argument.values:
        yield f'        {pattern}) values="{" ".join(argument.values)}" kind="{kind}" ;;'
