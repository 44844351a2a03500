"""`penstock models`: list an endpoint's models, their properties and the source of each value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.endpoint import add_endpoint_options
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.cli.endpoint import EndpointOptions
    from penstock.models.info import ModelInfo, Prices

_USAGE = "penstock models [--base-url URL | --preset NAME] [options] [NAME ...]"

_DESCRIPTION = """\
List the models of an endpoint: token limits, capabilities, prices, and the
source of each value. Servers on this machine are also asked which models they
have loaded."""

_EPILOG = """\
examples:
  penstock models                            the gateway on this machine
  penstock models --preset openrouter claude gemini
                                             names that contain one of these
  penstock models --preset ollama --json     one object per line
  penstock models --override 'qwen3 = window:32k tools'

docs/models.md describes where the values come from, and the override syntax.

exit codes:
  0  models were found
  1  no models were found, or the endpoint returned an error
  2  nothing was requested: wrong options, or no server at the address"""

_COLUMNS = ("model", "window", "input", "output", "images", "tools", "reasoning", "$/million in/out")
_RIGHT = frozenset({"window", "input", "output"})
_LETTERS = {"override": "o", "endpoint": "e", "probe": "p", "catalog": "c", "id": "n", "default": "d"}
_LEGEND = {
    "o": "your override",
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
    add_endpoint_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

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
        return PROBLEM
    wanted = [name.lower() for name in options.names]
    found = [info for info in listed if not wanted or any(name in info.id.lower() for name in wanted)]
    if not found:
        terminal.note(f"no model name matches; the endpoint lists {len(listed)} models")
        return PROBLEM
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
    """Print every value followed by the letter of its source, and a legend of the letters."""
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
        cell("prices", _price(info.prices)) if info.prices else ("?", ""),
    ]


def _price(prices: Prices) -> str:
    """Return the prices of input and output, then of cached input if known."""
    cached = f" (cached {prices.cached_input:g})" if prices.cached_input is not None else ""
    return f"{prices.input:g}/{prices.output:g}{cached}"
