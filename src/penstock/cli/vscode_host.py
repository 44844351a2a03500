"""`penstock vscode-host`: the Python backend of the VS Code extension, on standard input and output."""

from __future__ import annotations

import argparse

from penstock.cli import OK, OUTPUT_CLOSED

LEVELS = ("trace", "debug", "info", "warning", "error")

_USAGE = "penstock vscode-host [--log-level LEVEL]"

_DESCRIPTION = """\
Provide models to an editor: read requests from standard input and write parts
to standard output, one JSON object per line. The VS Code extension starts this
command itself; docs/host.md describes the lines for other editors."""

_EPILOG = """\
example:
  echo '{"id": 1, "method": "count_tokens", "text": "Hello"}' |
    penstock vscode-host

The command ends when standard input is closed. Logs go to standard error.

exit codes:
  0    standard input was closed, or the command was stopped
  141  standard output was closed"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=LEVELS,
        default="info",
        help="trace, debug, info, warning or error (default: info)",
    )


def run(options: argparse.Namespace) -> int:
    from penstock.provider.host import stdio  # imported here to keep --help fast

    stdio.run(options.log_level, OK, OUTPUT_CLOSED)
