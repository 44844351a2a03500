"""`penstock models`: what an endpoint lists, what is known of it, and from where."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.endpoint import add_endpoint_options
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.cli.endpoint import EndpointOptions
    from penstock.models.info import ModelInfo, Prices

_USAGE = "penstock models [--base-url URL | --preset NAME] [options] [NAME ...]"

_DESCRIPTION = """\
List the models of an endpoint: how many tokens they take and give, what they
can do, what they cost, and where each of these figures is from. Servers on
this machine are also asked what they have loaded."""

_EPILOG = """\
examples:
  penstock models                            the gateway on this machine
  penstock models --preset openrouter claude gemini
                                             names with one of these in them
  penstock models --preset ollama --json     one object per line
  penstock models --override 'qwen3 = window:32k tools'

docs/models.md says how the figures are found, and what an override can say.

exit codes:
  0  there are such models
  1  there are none, or the endpoint refused or failed
  2  nothing was asked: wrong options, nobody at the address"""

_COLUMNS = ("model", "window", "input", "output", "images", "tools", "reasoning", "$/million in/out")
_RIGHT = frozenset({"window", "input", "output"})
_LETTERS = {"override": "o", "endpoint": "e", "probe": "p", "catalog": "c", "id": "n", "default": "d"}
_LEGEND = {
    "o": "your override",
    "e": "the endpoint's list",
    "p": "the server, asked",
    "c": "the catalog",
    "n": "the name",
    "d": "a default: nobody says",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("names", metavar="NAME", nargs="*", help="only models with this in their name")
    add("--json", action="store_true", help="print one JSON object per model")
    add_endpoint_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio  # here, so that --help does not pay for the imports

    from penstock.cli.endpoint import read_endpoint
    from penstock.cli.endpoint_errors import explain_error, no_gateway
    from penstock.errors import NetworkError, OpenResponsesError

    endpoint = read_endpoint(options, responses=False)
    terminal = Terminal()
    try:
        listed = asyncio.run(_listed(endpoint))
    except OpenResponsesError as error:
        if isinstance(error, NetworkError) and error.phase == "connect":
            raise UsageError(f"{error.message}{no_gateway(endpoint)}") from None
        terminal.note(explain_error(error, endpoint))
        return FOUND
    wanted = [name.lower() for name in options.names]
    found = [info for info in listed if not wanted or any(name in info.id.lower() for name in wanted)]
    if not found:
        terminal.note(f"no model has that in its name; the endpoint lists {len(listed)}")
        return FOUND
    if options.json:
        _print_json(found, terminal)
    else:
        _print_table(found, terminal)
    return OK


async def _listed(endpoint: EndpointOptions) -> list[ModelInfo]:
    from penstock.cli.endpoint_errors import logged_to
    from penstock.client.client import OpenResponsesClient

    with logged_to():
        async with OpenResponsesClient(endpoint.config) as client:
            return await endpoint.directory(client).list()


def _print_json(found: list[ModelInfo], terminal: Terminal) -> None:
    import msgspec

    for info in found:
        terminal.result(msgspec.json.encode(info).decode())


def _print_table(found: list[ModelInfo], terminal: Terminal) -> None:
    """Every figure with the letter of its source behind it, and what the letters mean below."""
    from penstock.cli.terminal_text import columns

    rows = [_row(info, terminal) for info in found]
    widths = [
        max(columns(name), *(columns(f"{text} {letter}") for text, letter in cells))
        for name, cells in zip(_COLUMNS, zip(*rows, strict=True), strict=True)
    ]
    header = [_padded(name, name, width) for name, width in zip(_COLUMNS, widths, strict=True)]
    terminal.line(terminal.paint("  ".join(header).rstrip(), "dim"))
    for row in rows:
        shown = [
            _padded(f"{text} {letter}", name, width)
            for (text, letter), name, width in zip(row, _COLUMNS, widths, strict=True)
        ]
        terminal.line("  ".join(shown).rstrip())
    used = sorted({letter for row in rows for _, letter in row if letter}, key="oepcnd".index)
    legend = ", ".join(f"{letter} {_LEGEND[letter]}" for letter in used)
    terminal.line(terminal.paint(f"from: {legend}", "dim"))


def _padded(cell: str, column: str, width: int) -> str:
    from penstock.cli.terminal_text import columns

    space = " " * (width - columns(cell))
    return space + cell if column in _RIGHT else cell + space


def _row(info: ModelInfo, terminal: Terminal) -> list[tuple[str, str]]:
    """The text of every column, and the letter of its source."""

    def cell(field: str, text: str) -> tuple[str, str]:
        return text, _LETTERS.get(info.sources.get(field, ""), "")

    def able(field: str) -> tuple[str, str]:
        return cell(field, "yes" if getattr(info, field) else "no")

    return [
        (terminal.clean(info.id), ""),
        cell("context_window", f"{info.context_window:,}"),
        cell("max_input", f"{info.max_input:,}"),
        cell("max_output", f"{info.max_output:,}"),
        able("image_input"),
        able("tool_calling"),
        able("reasoning"),
        cell("prices", _price(info.prices)) if info.prices else ("?", ""),
    ]


def _price(prices: Prices) -> str:
    """Input and output, then what is told of the cache."""
    cached = f" (cached {prices.cached_input:g})" if prices.cached_input is not None else ""
    return f"{prices.input:g}/{prices.output:g}{cached}"
