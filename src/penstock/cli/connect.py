"""`penstock connect`: show or write a client's configuration for the gateway."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, UsageError
from penstock.cli.terminal import Terminal
from penstock.suggestions import near_names

if TYPE_CHECKING:
    from penstock.connect.gateway import ConnectedGateway
    from penstock.connect.guides import ClientGuide

CLIENTS = ("codex", "vscode", "openai", "openai-node", "ai-sdk", "langchain", "agents", "pydantic-ai", "llm")

_USAGE = "penstock connect CLIENT [--base-url URL] [--model NAME] [options]"

_DESCRIPTION = """\
Show the configuration with which a client uses the gateway: the contents of
its file, or a short program. The gateway is asked for its models; if it is not
running, the configuration is shown all the same. The configuration goes to
standard output, and what to do with it to standard error."""

_EPILOG = """\
examples:
  penstock connect codex              show the lines for ~/.codex/config.toml
  penstock connect codex --write      put them there, after a backup
  penstock connect openai --model fast > hello.py
  penstock connect vscode --base-url https://llm.example/v1 --api-key-env KEY

Without --base-url, the gateway is the one that `penstock serve` would start
here: penstock.toml, PENSTOCK_CONFIG, PENSTOCK_HOST and PENSTOCK_PORT are read.
--write keeps everything else in the file, comments included, and a second run
changes nothing. If codex or llm is installed, it checks the file itself first.
docs/clients/ has a page about each client.

exit codes:
  0  the configuration was shown or written
  2  nothing was written: wrong options, an invalid configuration of the
     gateway, or a file that cannot be changed safely"""

_MOST_MODELS = 6


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("client", metavar="CLIENT", choices=CLIENTS, help=", ".join(CLIENTS))
    add("--base-url", metavar="URL", help="the gateway's base URL, with /v1 (default: the local gateway's)")
    add("--model", metavar="NAME", help="the model that the client uses (default: the gateway's first)")
    add(
        "--api-key-env",
        metavar="NAME",
        help="the environment variable from which the client takes its key (default: none, or PENSTOCK_KEY "
        "if the gateway has keys)",
    )
    add("--write", action="store_true", help="change the client's own file, after a backup")


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

    from penstock.cli.endpoint_errors import logged_to
    from penstock.connect.gateway import ask_gateway
    from penstock.connect.guides import GUIDES

    guide = GUIDES[options.client]
    url, variable, fallback = _address(options)
    terminal = Terminal(os.environ.get(variable, "").strip() if variable else "")
    with logged_to():
        key = os.environ.get(variable, "").strip() if variable else ""
        asked = ask_gateway(url, model=options.model or "", fallback=fallback, key_variable=variable, key=key)
        gateway = asyncio.run(asked)
    terminal.note(_summary(gateway, is_named=bool(options.model)))
    if options.write and guide.edit and guide.file:
        _write(guide, gateway, terminal)
    else:
        _show(guide, gateway, terminal, wants_file=options.write)
    _print_next_steps(guide, gateway, terminal)
    return OK


def _address(options: argparse.Namespace) -> tuple[str, str, str]:
    """Return the base URL; the variable with the key, empty if none is needed as far as is known; and the
    model to use if the gateway cannot be asked."""
    from penstock.connect.gateway import KEY_VARIABLE, local_settings, model_of_settings, url_of_settings
    from penstock.errors import ConfigError, InvalidRequestError
    from penstock.gateway.config.options import OptionError
    from penstock.gateway.settings import DEMO
    from penstock.net.urls import read_address

    named: str = (options.api_key_env or "").strip()
    if named and not (named.isascii() and named.isidentifier()):
        raise UsageError(f"--api-key-env: {named!r} is not the name of a variable")
    if options.base_url:
        url = options.base_url.rstrip("/")
        try:
            read_address(url)
        except InvalidRequestError as error:
            raise UsageError(f"--base-url: {error.message}") from None
        if "?" in url or "#" in url:  # clients append their paths
            raise UsageError("--base-url: leave out what follows the path, from ? or # on")
        return url, named, DEMO
    try:
        settings = local_settings(Path.cwd(), os.environ)
        variable = named or (KEY_VARIABLE if settings.keys else "")
        return url_of_settings(settings), variable, model_of_settings(settings)
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None


def _summary(gateway: ConnectedGateway, *, is_named: bool) -> str:
    if gateway.problem:
        guess = "" if is_named else f". The configuration has the model {gateway.model}: change it if needed"
        return gateway.problem.rstrip(".") + guess
    names = list(gateway.listed)
    shown = ", ".join(names[:_MOST_MODELS])
    more = f" and {len(names) - _MOST_MODELS} more" if len(names) > _MOST_MODELS else ""
    missing = ""
    if gateway.model not in names:
        near = " or ".join(near_names(gateway.model, names))
        missing = (
            f". It does not list {gateway.model}: {f'did you mean {near}?' if near else 'check the name'}"
        )
    return f"the gateway at {gateway.base_url} has these models: {shown}{more}{missing}"


def _show(guide: ClientGuide, gateway: ConnectedGateway, terminal: Terminal, *, wants_file: bool) -> None:
    from penstock.cli.banner import short_path

    text = guide.settings(gateway)
    _check(guide, text.encode())
    terminal.result(text.removesuffix("\n"))
    if wants_file:
        terminal.note(f"{guide.title} has no file of its own, so nothing was written: this is a program")
    elif guide.file:
        place = short_path(guide.file(os.environ))
        terminal.note(f"add these lines to {place}; --write puts them there, after a backup")


def _write(guide: ClientGuide, gateway: ConnectedGateway, terminal: Terminal) -> None:
    from penstock.cli.banner import short_path
    from penstock.errors import ConfigError
    from penstock.shared_file import replace_with_backup

    assert guide.file
    assert guide.edit
    path = guide.file(os.environ)
    try:
        before = path.read_bytes() if path.exists() else b""
        after = guide.edit(before, gateway, str(path))
        if after == before:
            terminal.note(f"{short_path(path)} already has these settings: nothing was changed")
            return
        _check(guide, after, path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        backup = replace_with_backup(path, after, before=before)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    old = f"; the old file is now {short_path(backup)}" if backup else ""
    terminal.note(f"wrote {short_path(path)}{old}")


def _check(guide: ClientGuide, data: bytes, path: Path | None = None) -> None:
    """Let the client read its configuration, if it is installed; raise `UsageError` if it refuses it."""
    import shutil

    from penstock.connect.own_checks import complaint

    check = guide.check if path or (guide.check and not guide.check.is_slow) else None
    program = shutil.which(check.program, path=os.environ.get("PATH")) if check else None
    if check and program and (problem := complaint(check, program, data)):
        place = f"{path} was not changed, because {check.program}" if path else check.program
        raise UsageError(f"{place} does not accept the configuration: {problem}")


def _print_next_steps(guide: ClientGuide, gateway: ConnectedGateway, terminal: Terminal) -> None:
    from penstock.connect.guides import next_steps

    if guide.install:
        terminal.note(f"{guide.title} is installed with: {guide.install}")
    for step in next_steps(guide, gateway):
        terminal.note(step)
