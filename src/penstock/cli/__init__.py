"""The command line: parser and dispatch. A command's own file is imported only when it is chosen."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import penstock

COMMANDS = {
    "check": "is this stream lawful? which rule does it break, and where?",
    "translate": "turn a provider's stream into an OpenResponses stream",
    "render": "show the request that an upstream would be sent",
    "parts": "show the parts that an editor gets of a stream",
    "chat": "talk to a model, or ask it one thing in a pipe",
    "models": "list an endpoint's models, with limits, abilities and prices",
    "serve": "start the gateway: an OpenResponses endpoint in front of any model",
    "keys": "make, list and remove the keys of a gateway's clients",
    "config": "check a configuration file, and show what it says",
    "explain": "what happened in a turn of a gateway",
    "replay": "run a recorded turn through today's code, and tell what differs",
    "store": "what a gateway has kept: figures, deleting the old, export",
    "vscode-host": "provide models to an editor, in lines on standard input and output",
}
"""The commands, each with its line in `penstock --help`. The module of a name has `configure` and `run`."""

OK, FOUND, USAGE = 0, 1, 2
INTERRUPTED, OUTPUT_CLOSED = 130, 141  # what a shell reports for a program ended by SIGINT and SIGPIPE

_DESCRIPTION = "Any model's stream, to any client, as one lawful OpenResponses stream."
_EPILOG = """\
exit codes: 0 all is well, 1 something is wrong, 2 the command was used wrongly
`penstock COMMAND --help` explains a command, with examples"""


class UsageError(Exception):
    """The command cannot do what it was asked; the message says what to do instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `--help`, `--version` and wrong options raise SystemExit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None or sys.stderr is None:  # closed by the caller: nobody listens, and that is no error
        nobody = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
        sys.stdout, sys.stderr = sys.stdout or nobody, sys.stderr or nobody
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        from penstock.cli.terminal import escaped

        print(f"penstock: {escaped(str(error))}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return OUTPUT_CLOSED
    except OSError as error:  # commands turn what they cannot read into a UsageError: this is the output
        _forget_output()
        print(f"penstock: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return USAGE
    return code


def _forget_output() -> None:
    """Python flushes stdout once more at exit; that must not fail a second time, with a message."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    # No option of `penstock` itself takes a value, so the first word is the command.
    chosen = next((word for word in arguments if not word.startswith("-")), "")
    parser = build_parser(chosen)
    options = parser.parse_args(arguments)
    if not options.command:
        parser.print_help(sys.stderr)
        return USAGE
    # A stream may hold any character; a terminal that cannot show one is no reason to stop.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code: int = _module(options.command).run(options)
    return code


def build_parser(chosen: str = "") -> argparse.ArgumentParser:
    """The parser of `penstock`; only the chosen command's options are filled in."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"penstock {penstock.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, allow_abbrev=False)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        if name == chosen:
            _module(name).configure(command)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"penstock.cli.{name.replace('-', '_')}")
