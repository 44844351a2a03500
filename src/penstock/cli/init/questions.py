"""The questions of `penstock init`, each with an answer for Enter."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from penstock.cli import UsageError
from penstock.cli.terminal import Terminal
from penstock.cli.terminal_text import shortened
from penstock.formatting import counted
from penstock.gateway.config.starter import StarterModel, starter_models
from penstock.suggestions import near_names
from penstock.upstream.discovery import FoundUpstream
from penstock.upstream.reachability import PLAIN_NAME

_WIDTH = 80
"""Columns. A terminal may have fewer."""
_MOST_SHOWN = 9
_NO_MODEL = "type a number or a name from the list."
_SEPARATOR = re.compile(r"[,\s]+")


class Questions:
    """Ask on the terminal. With `takes_defaults`, every answer is the one for Enter."""

    def __init__(self, terminal: Terminal, *, takes_defaults: bool) -> None:
        self._terminal = terminal
        self._takes_defaults = takes_defaults

    def show(self, upstreams: Sequence[FoundUpstream]) -> None:
        """Print what was found, with numbers."""
        self._table("Found:", [(each.title, _details(each)) for each in upstreams])

    def upstreams(self, found: Sequence[FoundUpstream]) -> list[FoundUpstream]:
        """Ask which upstreams to use."""
        if self._takes_defaults:
            return list(found)
        while True:
            answer = self._ask("Use which? Numbers such as 1,2; 0 for none; Enter for all: ")
            words = [word for word in _SEPARATOR.split(answer) if word]
            if not words:
                return list(found)
            if words == ["0"]:
                return []
            if all(word.isdecimal() and 1 <= int(word) <= len(found) for word in words):
                numbers = {int(word) for word in words}
                return [each for number, each in enumerate(found, 1) if number in numbers]
            self._say(f"Please type numbers from 1 to {len(found)}, separated by commas.")

    def default_model(self, upstreams: Sequence[FoundUpstream]) -> StarterModel | None:
        """Ask for the default model; None if there is no model to choose."""
        models = starter_models(upstreams)
        if not models:
            return None
        if self._takes_defaults or len(models) == 1:
            return models[0]
        shown = _some_of_each(models)
        self._table("Default model:", [(each.name, each.upstream.title) for each in shown])
        while True:
            answer = self._ask("A number or the name of a model; Enter for 1: ")
            if found := _model(answer, shown, models, upstreams):
                return found
            listed = [name for each in upstreams for name in each.models]
            near = self._terminal.clean(" or ".join(near_names(answer, listed)))
            self._say(f"There is no such model; {f'did you mean {near}?' if near else _NO_MODEL}")

    def may_spend(self, vendors: Sequence[FoundUpstream]) -> bool:
        """Ask whether these vendors may be tried."""
        if self._takes_defaults:
            return True
        titles = " and ".join(each.title for each in vendors)
        answer = self._ask(f"Send a short test to {titles}? It costs a fraction of a cent. [Y/n] ")
        return answer.lower() in ("", "y", "yes")

    def _ask(self, question: str) -> str:
        self._terminal.begin_line(question)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            self._say("")  # the prompt of the shell begins on a line of its own
            raise
        if not line:
            self._say("")
            raise UsageError("the input ended before all questions were answered: nothing was written")
        return line.strip()

    def _say(self, text: str) -> None:
        self._terminal.line(text)

    def _table(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        self._say(title)
        width = min(max(len(name) for name, _ in rows), 44)
        for number, (name, details) in enumerate(rows, 1):
            line = f"  {number:>2}  {shortened(name, width):<{width}}  {details}"
            self._say(self._terminal.clean(shortened(line, min(self._terminal.width, _WIDTH))))


def _details(upstream: FoundUpstream) -> str:
    where = upstream.base_url if upstream.is_local else upstream.key_variable
    if upstream.problem:
        return f"{where}, which cannot be reached now"
    return f"{where}, {counted(len(upstream.models), 'model')}"


def _some_of_each(models: Sequence[StarterModel]) -> list[StarterModel]:
    """Return a few models of every upstream, in order."""
    names = list(dict.fromkeys(each.upstream.name for each in models))
    most = max(_MOST_SHOWN // len(names), 1)
    return [each for name in names for each in [each for each in models if each.upstream.name == name][:most]]


def _model(
    answer: str,
    shown: Sequence[StarterModel],
    models: Sequence[StarterModel],
    upstreams: Sequence[FoundUpstream],
) -> StarterModel | None:
    """Return the model of an answer: a number of the list, a name in it, or another name that is listed."""
    if not answer:
        return shown[0]
    if answer.isdecimal() and 1 <= int(answer) <= len(shown):
        return shown[int(answer) - 1]
    if found := next((each for each in models if answer == each.name), None):
        return found
    listed = (each for each in upstreams if answer in each.models)
    upstream = next(listed, None) if PLAIN_NAME.fullmatch(answer) else None
    return StarterModel(answer, upstream, answer) if upstream else None
