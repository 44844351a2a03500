"""The command line: parser and dispatch. A command's module is imported only when the command is used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import penstock
from penstock.cli.parser import CommandParser

COMMANDS = {
    "check": "check whether a stream is lawful, and report the rules it breaks",
    "translate": "convert a provider's stream to an OpenResponses stream",
    "render": "show the request that would be sent to an upstream",
    "parts": "show the parts that an editor receives for a stream",
    "chat": "chat with a model, or send a single prompt in a pipe",
    "models": "list an endpoint's models with limits, capabilities and prices",
    "init": "write a first penstock.toml for the keys and servers found here",
    "serve": "start the gateway: an OpenResponses endpoint in front of any model",
    "connect": "show or write a client's configuration for the gateway",
    "run": "start a client with a private gateway, without changing its files",
    "keys": "create, list, rotate and revoke client keys",
    "config": "check a configuration file, or show all settings and their origins",
    "health": "check whether a gateway accepts requests, for health checks",
    "doctor": "find out what is wrong, from the configuration to the models",
    "turns": "list recent turns, and follow new ones as they end",
    "explain": "explain what happened in a turn",
    "replay": "replay a recorded turn with this version and show differences",
    "store": "show, prune and export stored responses",
    "usage": "show what keys and models have used: turns, tokens, cost",
    "completions": "print a script that completes commands and options in a shell",
    "vscode-host": "provide models to an editor over standard input and output",
}
"""The commands, each with its line in `penstock --help`. A command's module has `configure` and `run`."""

OK, PROBLEM, USAGE = 0, 1, 2
INTERRUPTED, OUTPUT_CLOSED = 130, 141  # as shells report a program ended by SIGINT or SIGPIPE

_DESCRIPTION = "Deliver any model's stream to any client, as one lawful OpenResponses stream."
_EPILOG = """\
exit codes: 0 success, 1 problems were found, 2 could not run
`penstock COMMAND --help` describes a command, with examples"""


class UsageError(Exception):
    """The command cannot run as requested; the message explains what to do instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `--help`, `--version` and wrong options raise SystemExit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None or sys.stderr is None:  # closed by the caller, which is not an error
        devnull = open(os.devnull, "w")  # noqa: SIM115 - stays open until the process exits
        sys.stdout, sys.stderr = sys.stdout or devnull, sys.stderr or devnull
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        from penstock.cli.terminal import write_error
        from penstock.cli.terminal_text import escaped

        write_error(escaped(str(error)))
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return OUTPUT_CLOSED
    except OSError as error:  # commands report unreadable input as UsageError, so this is the output
        discard_output()
        print(f"penstock: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return USAGE
    return code


def discard_output() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    # No option of `penstock` itself takes a value, so the first word is the command.
    command = next((word for word in arguments if not word.startswith("-")), "")
    parser = build_parser(command)
    options = parser.parse_args(arguments)
    if not options.command:
        parser.print_help(sys.stderr)
        return USAGE
    # A stream may contain characters that the terminal cannot show; escape them instead of failing.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code: int = _module(options.command).run(options)
    return code


def build_parser(*selected: str) -> CommandParser:
    """Build the parser of `penstock`. Only the selected commands get their options."""
    parser = CommandParser(
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
        if name in selected:
            _module(name).configure(command)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"penstock.cli.{name.replace('-', '_')}")
