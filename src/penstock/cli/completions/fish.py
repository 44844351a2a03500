"""The completion script for fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.cli.completions.command_words import CommandWords, CompletedArgument

_START = """\
# fish completion for penstock; `penstock completions fish` prints it.

function __penstock_words -d 'The words before the cursor, without options'
    set -l words (commandline -opc | string match --invert -- '-*')
    set -e words[1]
    string join \\n -- $words
end

function __penstock_after -d 'Whether the line begins with these words'
    set -l words (__penstock_words)
    set -l length (count $argv)
    test (count $words) -ge $length; and test "$words[1..$length]" = "$argv"
end

function __penstock_after_only -d 'Whether the line consists of these words'
    set -l words (__penstock_words)
    test "$words" = "$argv"
end

complete -c penstock -f"""


def fish_script(commands: Sequence[CommandWords]) -> str:
    return "\n".join([_START, *(line for each in commands for line in _lines(each))])


def _lines(command: CommandWords) -> Iterator[str]:
    if command.path:
        yield f"\n# penstock {command.name}"
    only = _quoted(f"__penstock_after_only {command.name}".rstrip())
    after = _quoted(f"__penstock_after {command.name}") if command.path else only
    for name, summary in command.subcommands.items():
        yield f"complete -c penstock -n {only} -a {name} -d {_quoted(summary)}"
    for option in command.options:
        yield f"complete -c penstock -n {after} {_option(option)}"
    for argument in command.positionals:
        if values := _values(argument):
            place = after if argument.is_repeated or argument.kind == "file" else only
            yield f"complete -c penstock -n {place} {values}"


def _option(option: CompletedArgument) -> str:
    words = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.kind != "none":
        words.append("-r" if option.kind == "file" else "-x")
        words.append(_values(option))
    return " ".join(filter(None, [*words, f"-d {_quoted(option.help)}"]))


def _values(argument: CompletedArgument) -> str:
    words = f"-a {_quoted(' '.join(argument.values))}" if argument.values else ""
    if argument.kind == "file":
        return f"-F {words}".rstrip()
    if argument.kind == "variable":
        return "-a '(set --names --export)'"
    return words


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
