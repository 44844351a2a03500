"""The parser of the command line: argparse with advice for names and options that do not exist."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from penstock.suggestions import advice, near_names, unknown


class CommandParser(argparse.ArgumentParser):
    """A parser that suggests what the user may have meant. Its subcommands get parsers of this class, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._words: list[str] = []
        self._rest = ""

    def collect_rest(self, what: str) -> None:
        """Keep what follows `--` as it is, in the option `rest`; `what` is what it is called."""
        self._rest = what

    def actions(self) -> list[argparse.Action]:
        """Return all options and arguments. argparse has no public way to list them."""
        return list(self._actions)

    def flags(self) -> list[str]:
        """Return the long options."""
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; report arguments that are not known here, where the options of the subcommand are known."""
        self._words = list(sys.argv[1:] if args is None else args)
        words, rest = self._words, []
        if self._rest and "--" in words:
            end = words.index("--")
            words, rest = words[:end], words[end + 1 :]
        options, others = super().parse_known_args(words, namespace)
        if others:
            hint = f"; {self._rest} follow --" if self._rest else ""
            self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        if self._rest:
            options.rest = rest
        return options, others

    def error(self, message: str) -> NoReturn:
        """Exit with the message and advice for options that do not exist. These may also be the reason for
        other errors: without a mistyped `--dialct`, `--dialect` is missing."""
        from penstock.cli.terminal_text import escaped

        words = self._words[: self._words.index("--")] if "--" in self._words else self._words
        hints = [hint for word in words if (hint := self._hint(word))]
        super().error(escaped("; ".join([message, *dict.fromkeys(hints)])))

    def _hint(self, word: str) -> str:
        flag = word.partition("=")[0]
        if not flag.startswith("-") or flag in self._option_string_actions:
            return ""
        known = {name[2:]: name for name in self.flags()}
        near = near_names(flag.strip("-"), known)
        return f"did you mean {' or '.join(known[name] for name in near)}?" if near else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not one of the choices; argparse would list all of them."""
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(each) for each in choices]
        if action.option_strings:
            raise argparse.ArgumentError(action, f"invalid choice {value!r}; {advice(str(value), names)}")
        raise argparse.ArgumentError(None, unknown(action.dest, str(value), names))
