"""`penstock serve`: start the gateway."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal, terminal_width
from penstock.dialects.registry import RENDERED
from penstock.formatting import counted

if TYPE_CHECKING:
    from socket import socket

    from penstock.gateway.config.options import ServeOptions
    from penstock.gateway.gateway import Gateway
    from penstock.gateway.settings import Settings

_USAGE = "penstock serve [--upstream URL] [--preset NAME] [--model NAME] [options]"

_DESCRIPTION = """\
Start the gateway: an OpenResponses endpoint in front of any model. Without
options it serves the built-in model `demo`, which needs no key and no network."""

_EPILOG = """\
examples:
  penstock serve        try it with the model `demo`
  penstock serve --preset anthropic
                        Claude, with the key in ANTHROPIC_API_KEY
  penstock serve --upstream http://127.0.0.1:11434/v1
                        Ollama, or any server with a Chat Completions API
  penstock serve --upstream https://llm.example/v1 --api-key-env LLM_KEY
  penstock serve --config penstock.toml
                        many upstreams, fallback, keys: docs/configuration.md

Without --config, penstock.toml is read from the current folder or from
~/.config/penstock if it exists. Its changes apply within about a second;
SIGTERM lets running turns finish, then stops the gateway.

environment variables, which override the file and are overridden by options:
  PENSTOCK_CONFIG  the configuration file, as --config
  PENSTOCK_HOST    the address to listen on, as --host
  PENSTOCK_PORT    the port, as --port

exit codes:
  0  the gateway was stopped
  1  the gateway was stopped, but some responses could not be stored: the log
     lists them
  2  the gateway could not start: wrong options, an invalid configuration, or
     an address in use"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = add_serve_options(parser).add_argument
    add("--config", metavar="FILE", help="the configuration file (default: penstock.toml, if it exists)")
    add("--ready-file", metavar="FILE", help="write the URL to this file when the gateway is ready")


def add_serve_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that override settings of the file; return the group of options for serving."""
    upstream = add_upstream_options(parser, without_key="the client's own key is passed on")
    add = upstream.add_argument
    add(
        "--model",
        metavar="NAME",
        action="append",
        default=[],
        help="serve only this model; may be repeated (default: every name is passed on unchanged)",
    )
    serving = parser.add_argument_group("serving")
    add = serving.add_argument
    add("--host", metavar="HOST", help="the address to listen on (default: 127.0.0.1; others need keys)")
    add("--port", metavar="PORT", type=_port, help="the port (default: 8080; 0 picks a free one)")
    add(
        "--log-level",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error"),
        help="debug, info, warning or error",
    )
    add("--store", metavar="PATH|none", help="where to store responses (default: a file in your data folder)")
    add(
        "--record",
        action="store_true",
        default=None,
        help="also store the upstreams' bytes, for penstock replay",
    )
    add("--metrics", metavar="HOST:PORT", type=_metrics, help="an address of its own for /metrics")
    return serving


def add_upstream_options(parser: argparse.ArgumentParser, *, without_key: str) -> argparse._ArgumentGroup:
    """Add the options that describe an upstream; return their group. `without_key` says what happens if the
    upstream has no key."""
    upstream = parser.add_argument_group("upstream")
    add = upstream.add_argument
    add("--upstream", metavar="URL", help="the upstream's base URL, with or without /v1")
    add("--preset", metavar="NAME", help="a vendor: sets URL, dialect, quirks and the variable with the key")
    add(
        "--dialect",
        metavar="NAME",
        choices=sorted(RENDERED),
        help=f"the upstream's API format (dialect): {', '.join(sorted(RENDERED))} "
        "(default: the preset's, or chat)",
    )
    add(
        "--api-key-env",
        metavar="NAME",
        help=f"the environment variable with the API key (default: the preset's; without one, {without_key})",
    )
    return upstream


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to 65535")
    return int(text)


def _metrics(text: str) -> tuple[str, int]:
    from penstock.gateway.config.file import metrics_address
    from penstock.gateway.config.values import InvalidValue

    try:
        return metrics_address(text)
    except InvalidValue as wrong:
        raise argparse.ArgumentTypeError(f"{text!r} {wrong}") from None


def run(options: argparse.Namespace) -> int:
    from penstock.errors import (  # imported here to keep --help fast
        ConfigError,
        PenstockError,
        StoreError,
    )
    from penstock.gateway.config.file import find_config
    from penstock.gateway.config.options import OptionError, settings_from
    from penstock.gateway.telemetry.logs import set_up

    path = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    given = serve_options(options)
    try:
        settings = settings_from(given, path, os.environ)
        listening, metrics = _listen(settings)
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None
    except PenstockError as error:
        raise UsageError(_with_advice(error)) from None
    ready_file = _ready_file(options.ready_file)
    set_up(settings.log_level, width=lambda: terminal_width(sys.stderr))
    try:
        lost = _serve(settings, listening, metrics, given, path, ready_file)
    except (StoreError, ConfigError) as error:
        raise UsageError(f"--store: {error}") from None
    if not lost:
        return OK
    count = counted(len(lost), "response")
    print(f"penstock: {count} could not be written to the store: the log lists them", file=sys.stderr)
    return PROBLEM


def serve_options(options: argparse.Namespace) -> ServeOptions:
    """Return the options of `add_serve_options`."""
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
        metrics=options.metrics,
    )


def _serve(
    settings: Settings,
    listening: socket,
    metrics: socket | None,
    given: ServeOptions,
    path: Path | None,
    ready_file: Path | None,
) -> list[str]:
    """Serve until stopped; return the ids of responses that could not be stored."""
    from penstock.application import open_app
    from penstock.editor.route import own_url
    from penstock.gateway.config.options import reloaded_settings
    from penstock.gateway.server import listen, url_of
    from penstock.gateway.server import run as serve

    # The certificate may not be valid for a local address.
    own = listen("127.0.0.1", 0) if settings.tls_cert else None
    # The configured port may be 0.
    url = url_of(own) if own else own_url(settings.host, listening.getsockname()[1])
    return serve(
        lambda: open_app(settings, url=url),
        listening,
        own=own,
        ready=lambda url: _ready(url, ready_file),
        announce=lambda url, gateway: _announce(url, gateway, path, metrics),
        watch=path,
        metrics=metrics,
        reload=lambda: reloaded_settings(given, path, os.environ),
    )


def _listen(settings: Settings) -> tuple[socket, socket | None]:
    """Return the socket of the gateway, and that of the metrics if they have an address of their own."""
    from penstock.gateway.server import listen

    listening = listen(settings.host, settings.port)
    try:
        return listening, listen(*settings.metrics) if settings.metrics else None
    except BaseException:
        listening.close()
        raise


def _ready_file(name: str | None) -> Path | None:
    """Return the path, and remove an old file so that its URL is not mistaken for the new one."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".new").touch()
    except OSError as error:
        raise UsageError(f"--ready-file: cannot write {name}: {error.strerror}") from None
    return path


def _with_advice(error: Exception) -> str:
    advice = ". Is another gateway running? --port 0 picks a free port" if "in use" in str(error) else ""
    return f"{error}{advice}"


def _ready(url: str, ready_file: Path | None) -> None:
    """Print the line that programs wait for, and write the ready file."""
    from penstock.cli.banner import write

    write([f"Penstock is ready at {url}/v1"])
    if ready_file is not None:
        # Replace atomically, so that a waiting process never reads half of it.
        temporary = ready_file.with_name(ready_file.name + ".new")
        temporary.write_text(url + "\n")
        temporary.replace(ready_file)


async def _announce(url: str, gateway: Gateway, path: Path | None, metrics: socket | None) -> None:
    from penstock.cli.banner import ServedGateway, announce, store_in_words
    from penstock.gateway.server import url_of
    from penstock.gateway.storage import default_path
    from penstock.store.memory import MemoryStore

    settings = gateway.services.settings
    is_in_memory = isinstance(gateway.store, MemoryStore)
    store = store_in_words(settings, default_path(os.environ), is_in_memory=is_in_memory)
    served = ServedGateway(
        url=url,
        settings=settings,
        file=path,
        store=store,
        metrics=f"{url_of(metrics)}/metrics" if metrics else "",
    )
    await announce(served, Terminal())
