"""`penstock models`: list an endpoint's models, their properties and the source of each value."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.endpoint import add_endpoint_options
from penstock.cli.layout import Column, print_table
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.cli.endpoint import EndpointOptions
    from penstock.models.info import ModelInfo, Prices

_USAGE = "penstock models [--base-url URL | --preset NAME] [options] [NAME ...]"

_DESCRIPTION = """\
List the models of an endpoint: token limits, capabilities, prices, and the
source of each value. Servers on this machine are also asked which models they
have loaded. Limits that were learned from errors are included."""

_EPILOG = """\
examples:
  penstock models                            the gateway on this machine
  penstock models --preset openrouter claude gemini
                                             names that contain one of these
  penstock models --preset ollama --json     one object per line
  penstock models --override 'qwen3 = window:32k tools'
  penstock models --forget qwen3             forget what errors have taught

docs/models.md describes where the values come from, and the override syntax.

exit codes:
  0  models were found, or limits were forgotten
  1  no models or limits were found, or the endpoint returned an error
  2  nothing was requested: wrong options, or no server at the address"""

_COLUMNS = (
    Column("model", least=16),
    Column("window", is_right=True),
    Column("input", is_right=True, leaves=2),
    Column("output", is_right=True, leaves=5),
    Column("images", leaves=4),
    Column("tools", leaves=6),
    Column("reasoning", leaves=3),
    Column("$/million in/out"),
    Column("cached", leaves=1),
)
_LETTERS = {
    "override": "o",
    "learned": "l",
    "endpoint": "e",
    "probe": "p",
    "catalog": "c",
    "id": "n",
    "default": "d",
}
_LEGEND = {
    "o": "your override",
    "l": "learned from an error",
    "e": "the endpoint's list",
    "p": "a probe of the server",
    "c": "the catalog",
    "n": "the model's name",
    "d": "default (unknown)",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("names", metavar="NAME", nargs="*", help="only models whose name contains this")
    add("--json", action="store_true", help="print one JSON object per model")
    add("--forget", action="store_true", help="forget the limits that were learned from errors")
    add_endpoint_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

    from penstock.cli.endpoint import read_endpoint
    from penstock.cli.endpoint_errors import explain_error, no_gateway
    from penstock.errors import NetworkError, OpenResponsesError

    endpoint = read_endpoint(options, responses=False)
    terminal = Terminal()
    if options.forget:
        return _forget(endpoint, options.names, terminal)
    try:
        listed = asyncio.run(_listed(endpoint, terminal))
    except OpenResponsesError as error:
        if isinstance(error, NetworkError) and error.phase == "connect":
            raise UsageError(f"{error.message}{no_gateway(endpoint)}") from None
        terminal.note(explain_error(error, endpoint))
        return PROBLEM
    found = [info for info in listed if _is_wanted(info.id, options.names)]
    if not found:
        terminal.note(f"no model name matches; the endpoint lists {len(listed)} models")
        return PROBLEM
    if options.json:
        _print_json(found, terminal)
    else:
        _print_table(found, terminal)
    return OK


def _is_wanted(model: str, names: list[str]) -> bool:
    return not names or any(name.lower() in model.lower() for name in names)


def _forget(endpoint: EndpointOptions, names: list[str], terminal: Terminal) -> int:
    """Forget learned limits, without asking the endpoint."""
    from penstock.cli.endpoint_errors import logged_to
    from penstock.formatting import format_time

    with logged_to():
        limits = endpoint.limits()
        forgotten = limits.forget(model for model in limits.all() if _is_wanted(model, names))
    if limits.problem:
        terminal.note(limits.problem)
    for model, limit in forgotten.items():
        day = format_time(limit.learned).partition(" ")[0]
        terminal.line(f"forgot {terminal.clean(model)}: {limit.limit:,} tokens, learned on {day}")
    if not forgotten:
        matching = " for a model whose name matches" if names else ""
        terminal.note(f"no limit was learned{matching} at {terminal.clean(limits.endpoint)}")
    return OK if forgotten else PROBLEM


async def _listed(endpoint: EndpointOptions, terminal: Terminal) -> list[ModelInfo]:
    from penstock.cli.endpoint_errors import logged_to
    from penstock.client.client import OpenResponsesClient

    with logged_to():
        async with OpenResponsesClient(endpoint.config) as client:
            directory = endpoint.directory(client)
            listed = await directory.list()
    if directory.limits is not None and directory.limits.problem:
        terminal.note(directory.limits.problem)
    return listed


def _print_json(found: list[ModelInfo], terminal: Terminal) -> None:
    import msgspec

    for info in found:
        terminal.result(msgspec.json.encode(info).decode())


def _print_table(found: list[ModelInfo], terminal: Terminal) -> None:
    """Print every value followed by the letter of its source, and a legend of the letters."""
    cells = [_row(info, terminal) for info in found]
    rows = [[f"{text} {letter}".strip() for text, letter in row] for row in cells]
    layout = print_table(_COLUMNS, rows, terminal)
    used = {letter for row in cells for _, letter in row}
    legend = ", ".join(f"{letter} {words}" for letter, words in _LEGEND.items() if letter in used)
    terminal.wrapped(f"from: {legend}", "  ", colour="dim")
    if layout.left_out:
        names = ", ".join(layout.left_out)
        terminal.wrapped(f"not shown: {names}; --json has everything", "  ", colour="dim")


def _row(info: ModelInfo, terminal: Terminal) -> list[tuple[str, str]]:
    """Return the text of every column with the letter of its source."""

    def cell(field: str, text: str) -> tuple[str, str]:
        return text, _LETTERS.get(info.sources.get(field, ""), "")

    def capability(field: str) -> tuple[str, str]:
        return cell(field, "yes" if getattr(info, field) else "no")

    return [
        (terminal.clean(info.id), ""),
        cell("context_window", f"{info.context_window:,}"),
        cell("max_input", f"{info.max_input:,}"),
        cell("max_output", f"{info.max_output:,}"),
        capability("image_input"),
        capability("tool_calling"),
        capability("reasoning"),
        *_prices(info.prices, cell),
    ]


def _prices(
    prices: Prices | None, cell: Callable[[str, str], tuple[str, str]]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the prices of input and output, and that of cached input."""
    if prices is None:
        return ("?", ""), ("", "")
    cached = prices.cached_input
    both = cell("prices", f"{prices.input:g}/{prices.output:g}")
    return both, cell("prices", f"{cached:g}") if cached is not None else ("", "")
