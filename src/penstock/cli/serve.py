"""`penstock serve`: the gateway, started."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.dialects.registry import RENDERED
from penstock.formatting import counted

if TYPE_CHECKING:
    from socket import socket

    from penstock.gateway.config.options import ServeOptions
    from penstock.gateway.settings import Settings

_USAGE = "penstock serve [--upstream URL] [--preset NAME] [--model NAME] [options]"

_DESCRIPTION = """\
Start the gateway: an OpenResponses endpoint in front of any model. Without
options it has the built-in model `demo`, which needs no key and no network."""

_EPILOG = """\
examples:
  penstock serve        try it with the model `demo`
  penstock serve --preset anthropic
                        Claude, with the key in ANTHROPIC_API_KEY
  penstock serve --upstream http://127.0.0.1:11434/v1
                        Ollama, or any server that speaks Chat Completions
  penstock serve --upstream https://llm.example/v1 --api-key-env LLM_KEY
  penstock serve --config penstock.toml
                        many upstreams, fall-back, keys: docs/configuration.md

A penstock.toml in this folder, or in ~/.config/penstock, is read without
asking; options add to it. SIGHUP reads it again, SIGTERM lets turns end.

exit codes:
  0  it was stopped
  1  it was stopped, and responses could not be written to the store before:
     the log names them
  2  it could not start: wrong options, a wrong file, an address in use"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    upstream = parser.add_argument_group("upstream")
    add = upstream.add_argument
    add("--upstream", metavar="URL", help="its base URL, with or without /v1")
    add("--preset", metavar="NAME", help="a vendor: its address, dialect, quirks and the variable of its key")
    add(
        "--dialect",
        metavar="NAME",
        choices=sorted(RENDERED),
        help=f"one of {', '.join(sorted(RENDERED))} (default: the preset's, else chat)",
    )
    add(
        "--api-key-env",
        metavar="NAME",
        help="the variable that holds the key (default: the preset's; without one, the client's own key is "
        "passed on)",
    )
    add(
        "--model",
        metavar="NAME",
        action="append",
        default=[],
        help="serve only this model; may be repeated (default: every name is passed on as it is)",
    )
    serving = parser.add_argument_group("serving")
    add = serving.add_argument
    add("--host", metavar="HOST", help="where to listen (default: 127.0.0.1; others need keys)")
    add("--port", metavar="PORT", type=_port, help="the port (default: 8080; 0 picks a free one)")
    add("--config", metavar="FILE", help="the settings (default: penstock.toml here, if there is one)")
    add(
        "--log-level",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error"),
        help="debug, info, warning or error",
    )
    add("--store", metavar="PATH|none", help="where responses are kept (default: in your data folder)")
    add(
        "--record",
        action="store_true",
        default=None,
        help="keep the upstreams' bytes with them, for penstock replay",
    )
    add("--ready-file", metavar="FILE", help="write the URL there when it is ready")


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to 65535")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from penstock.errors import (  # here, so that --help does not pay for it
        ConfigError,
        PenstockError,
        StoreError,
    )
    from penstock.gateway.config.file import find_config
    from penstock.gateway.config.options import OptionError, settings_from
    from penstock.gateway.server import listen
    from penstock.gateway.telemetry.logs import set_up

    path = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    given = _given(options)
    try:
        settings = settings_from(given, path, os.environ)
        listening = listen(settings.host, settings.port)
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None
    except PenstockError as error:
        raise UsageError(_advised(error)) from None
    ready_file = _ready_file(options.ready_file)
    set_up(settings.log_level)
    try:
        lost = _serve(settings, listening, given, path, ready_file)
    except (StoreError, ConfigError) as error:
        raise UsageError(f"--store: {error}") from None
    if not lost:
        return OK
    count = counted(len(lost), "response")
    print(f"penstock: {count} could not be written to the store: the log names each", file=sys.stderr)
    return FOUND


def _given(options: argparse.Namespace) -> ServeOptions:
    from penstock.gateway.config.options import ServeOptions

    return ServeOptions(
        upstream=options.upstream or "",
        preset=options.preset or "",
        dialect=options.dialect or "",
        api_key_env=options.api_key_env or "",
        models=tuple(options.model),
        host=options.host,
        port=options.port,
        log_level=options.log_level,
        store=options.store,
        record=options.record,
    )


def _serve(
    settings: Settings,
    listening: socket,
    given: ServeOptions,
    path: Path | None,
    ready_file: Path | None,
) -> list[str]:
    """Until it is stopped; the ids of the responses that are lost."""
    from penstock.application import open_app
    from penstock.editor.route import own_url
    from penstock.gateway.config.options import reloaded_settings
    from penstock.gateway.server import run as serve

    url = own_url(settings.host, listening.getsockname()[1])  # the port of the settings may be 0
    return serve(
        lambda: open_app(settings, url=url),
        listening,
        ready=lambda url: _tell(url, settings, path, ready_file),
        reload=lambda: reloaded_settings(given, path, os.environ),
    )


def _ready_file(name: str | None) -> Path | None:
    """An old one is removed, so that nobody takes its URL for the new one."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".new").touch()
    except OSError as error:
        raise UsageError(f"--ready-file: cannot write {name}: {error.strerror}") from None
    return path


def _advised(error: Exception) -> str:
    advice = ". Is another one running? --port 0 picks a free port" if "in use" in str(error) else ""
    return f"{error}{advice}"


def _tell(url: str, settings: Settings, path: Path | None, ready_file: Path | None) -> None:
    """One line with the URL, and three things to try."""
    model = settings.default_model or "demo"
    key = ' -H "authorization: Bearer $PENSTOCK_KEY"' if settings.keys else ""
    chat = f"{_command()} chat --base-url {url}/v1 --model {model}"
    body = f'{{"model": "{model}", "input": "Hello!", "stream": true}}'
    lines = [
        f"Penstock is ready at {url}/v1" + (f" (settings: {path})" if path else ""),
        "",
        "Try:",
        f"  curl -sN {url}/v1/responses{key} -H 'content-type: application/json' -d '{body}'",
        f"  {chat}" + (" --api-key-env PENSTOCK_KEY" if settings.keys else ""),
        f"  curl -s {url}/v1/models{key}",
        "",
    ]
    with suppress(OSError):  # whoever started it may not listen; those who ask it are served all the same
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    if ready_file is not None:
        # Whoever waits for the file must not read half of it.
        beside = ready_file.with_name(ready_file.name + ".new")
        beside.write_text(url + "\n")
        beside.replace(ready_file)


def _command() -> str:
    """How this command was called, so that what is printed can be typed: it may not be on the path."""
    called = Path(sys.argv[0])
    if called.name != "penstock" or shutil.which("penstock") == str(called.absolute()):
        return "penstock"
    return os.path.relpath(called) if called.is_absolute() else str(called)
