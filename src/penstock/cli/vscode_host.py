"""`penstock vscode-host`: the Python side of the VS Code extension, on standard input and output."""

from __future__ import annotations

import argparse

from penstock.cli import OK, OUTPUT_CLOSED

_USAGE = "penstock vscode-host [--log-level LEVEL]"

_DESCRIPTION = """\
Provide models to an editor: requests come on standard input and parts go to
standard output, one JSON object per line. The VS Code extension starts this by
itself; docs/host.md describes the lines for other editors."""

_EPILOG = """\
example:
  echo '{"id": 1, "method": "count_tokens", "text": "Hello"}' |
    penstock vscode-host

It ends when standard input is closed. Logs go to standard error.

exit codes:
  0    standard input was closed, or it was stopped
  141  nobody reads its output any more"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="debug, info, warning or error (default: info)",
    )


def run(options: argparse.Namespace) -> int:
    from penstock.provider.host import stdio  # here, so that --help does not pay for it

    stdio.run(options.log_level, OK, OUTPUT_CLOSED)
