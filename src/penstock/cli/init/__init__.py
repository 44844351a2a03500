"""`penstock init`: find keys and local servers, write a first `penstock.toml`, and try it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.init.questions import Questions
    from penstock.gateway.config.starter import StarterModel
    from penstock.upstream.discovery import Discovery, FoundUpstream

_USAGE = "penstock init [--yes] [--output FILE] [options]"

_DESCRIPTION = """\
Write a first penstock.toml. Keys are found in the environment, by the vendors'
usual variables, and servers such as Ollama, LM Studio, vLLM and llama.cpp at
their usual ports on this machine. All are asked for their models, which costs
nothing. Then you choose which to use and the default model, and each is tried
with one short request. The file contains the names of variables, not keys."""

_EPILOG = """\
examples:
  penstock init                 ask, try, and write ./penstock.toml
  penstock init --yes           use everything that is found, for scripts
  penstock init --yes --no-test --output ~/.config/penstock/penstock.toml
  penstock init --force         replace a file, after a backup

Ctrl-C leaves nothing behind: the file is written at the end. If nothing is
found, the file has the built-in model `demo` and examples to fill in.

exit codes:
  0  the file was written
  1  the file was written, but a model did not answer
  2  nothing was written: wrong options, no terminal and no --yes, or the file
     exists"""

_OWNER_ONLY = 0o600


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("--yes", action="store_true", help="ask nothing: use everything that is found, and try it")
    add("--output", metavar="FILE", help="the file to write (default: penstock.toml in this folder)")
    add("--force", action="store_true", help="replace an existing file; it is kept as FILE.bak")
    add("--no-test", action="store_true", help="send no request to a model")


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

    from penstock.cli.endpoint_errors import logged_to
    from penstock.cli.init.questions import Questions
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import NAME
    from penstock.upstream.discovery import discover

    path = Path(options.output or NAME)
    _check_path(path, options.force)
    if not options.yes and not _is_terminal():
        raise UsageError(
            "init asks questions, and this is not a terminal: add --yes to use everything that is found"
        )
    terminal = Terminal()
    questions = Questions(terminal, takes_defaults=options.yes)
    terminal.note("looking for keys in the environment and for servers on this machine ...")
    try:
        with logged_to():
            found = asyncio.run(discover(os.environ))
    except ConfigError as error:  # a key is in a file that cannot be read
        raise UsageError(str(error)) from None
    _show(found, questions, terminal)
    chosen = questions.upstreams(found.upstreams) if found.upstreams else []
    default = questions.default_model(chosen)
    tried = _to_try(chosen, default, questions) if not options.no_test else []
    text = _text(chosen, default, found)
    is_good = _try(text, path, tried, terminal)
    _write(path, text, terminal, may_replace=options.force)
    _print_next_steps(path, chosen, terminal, is_good=is_good)
    return OK if is_good else PROBLEM


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _check_path(path: Path, may_replace: bool) -> None:
    """Raise if the file cannot be written, before any question is asked."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: --output needs the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: create it, or choose another --output FILE")
    if path.exists() and not may_replace:
        raise UsageError(
            f"{path} exists: --force replaces it and keeps a backup, --output FILE writes another file"
        )


def _show(found: Discovery, questions: Questions, terminal: Terminal) -> None:
    if found.upstreams:
        questions.show(found.upstreams)
    else:
        terminal.line("Found no key in the environment and no server on this machine.")
    for url in found.gateways:
        terminal.note(f"a Penstock gateway is running at {url}; it is not used as an upstream")
    for note in found.notes:
        terminal.note(note)


def _text(chosen: Sequence[FoundUpstream], default: StarterModel | None, found: Discovery) -> str:
    from penstock.cli.endpoint import DEFAULT_URL
    from penstock.gateway.config.starter import starter_file
    from penstock.gateway.settings import Settings

    # A gateway that runs now is probably the one that will read this file.
    usual = Settings().port
    port = usual if DEFAULT_URL in found.gateways else free_port(Settings().host, usual)
    return starter_file(chosen, default, port=port)


def free_port(host: str, first: int) -> int:
    """Return the first port that no program uses; 0 if there is none nearby."""
    from penstock.gateway.server import CannotListen, listen

    for port in range(first, first + 20):
        try:
            listen(host, port).close()
        except CannotListen:
            continue
        return port
    return 0


# Trying


def _to_try(
    chosen: Sequence[FoundUpstream], default: StarterModel | None, questions: Questions
) -> list[tuple[str, FoundUpstream]]:
    """Return a model of every upstream that may be tried, by the name that it has in the file."""
    from penstock.gateway.config.starter import starter_models

    if default is None:
        return []
    vendors = [each for each in chosen if not each.is_local]
    may_spend = bool(vendors) and questions.may_spend(vendors)
    first = [default.upstream, *(each for each in chosen if each is not default.upstream)]
    names = {each.upstream.name: each.name for each in reversed(starter_models(first))}
    names[default.upstream.name] = default.model
    return [(names[each.name], each) for each in first if each.name in names and (each.is_local or may_spend)]


def _try(text: str, path: Path, tried: Sequence[tuple[str, FoundUpstream]], terminal: Terminal) -> bool:
    """Read the new file as a gateway would, and send a request to each model; return whether all answered."""
    import asyncio

    from penstock.cli.endpoint_errors import logged_to
    from penstock.cli.init.trial import try_models
    from penstock.cli.terminal_text import one_line
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import read_settings

    try:
        settings = read_settings(text, file=str(path), environment=os.environ)
    except ConfigError as error:  # it depends on the environment, such as an invalid proxy
        raise UsageError(f"these settings cannot be used: {error.message}") from None
    if not tried:
        return True
    terminal.note(f"trying {', '.join(model for model, _ in tried)} ...")
    with logged_to():
        trials = asyncio.run(try_models(settings, [model for model, _ in tried]))
    for trial, (_, upstream) in zip(trials, tried, strict=True):
        said = one_line(trial.text, 40)
        result = f'answered "{said}"' if said else "answered"
        if trial.problem:
            result = f"failed: {one_line(trial.problem, 300)}"
        sentence = terminal.clean(f"{upstream.title}: {trial.model} {result}")
        terminal.wrapped(sentence, "  ", colour="red" if trial.problem else "green")
    return not any(trial.problem for trial in trials)


# Writing


def _write(path: Path, text: str, terminal: Terminal, *, may_replace: bool) -> None:
    """Write the file with the usual mode of a configuration; keep an old one as a backup."""
    from penstock.shared_file import replace_with_backup

    path = path.resolve()  # write through a symbolic link
    try:
        if may_replace and path.exists():
            backup = replace_with_backup(path, text.encode())
            terminal.note(f"the old file is now {backup}")
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, _OWNER_ONLY), "wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _print_next_steps(
    path: Path, chosen: Sequence[FoundUpstream], terminal: Terminal, *, is_good: bool
) -> None:
    import shlex

    from penstock.cli.banner import command_name
    from penstock.gateway.config.file import find_config

    found = find_config(Path.cwd(), os.environ)
    is_default = found is not None and found.resolve() == path.resolve()
    option = "" if is_default else f" --config {shlex.quote(str(path))}"
    terminal.line(f"\nWrote {terminal.clean(str(path))}. Next:")
    terminal.line(f"  {command_name()} serve{option}")
    if not is_good:
        terminal.line(f"  {command_name()} doctor{option}     finds out why a model did not answer")
    if not chosen:
        terminal.line(
            "\nThe gateway has only the model demo so far. Set a vendor's key, such as\n"
            "ANTHROPIC_API_KEY, or start a local server, such as Ollama, and then run this\n"
            "command again with --force. Or fill in the examples in the file."
        )
