"""`penstock serve`: start the gateway."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, USAGE, UsageError
from penstock.cli.terminal import Terminal, terminal_width, write_error
from penstock.dialects.registry import RENDERED
from penstock.formatting import counted

if TYPE_CHECKING:
    from penstock.gateway.config.options import ServeOptions
    from penstock.gateway.server import ListeningSockets
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
  penstock serve --workers auto
                        one process per processor; SIGUSR2 replaces them one
                        by one, for example after an upgrade

Without --config, penstock.toml is read from the current folder or from
~/.config/penstock if it exists. Its changes apply within about a second;
SIGTERM lets running turns finish, then stops the gateway.

environment variables, which override the file and are overridden by options:
  PENSTOCK_CONFIG  the configuration file, as --config
  PENSTOCK_HOST    the address to listen on, as --host
  PENSTOCK_PORT    the port, as --port
  PENSTOCK_STORE   where responses are stored, as --store: for a URL with a
                   password, which other users would see in an option
  PENSTOCK_REDIS   the server for messages between workers, as --redis

exit codes:
  0  the gateway was stopped
  1  the gateway was stopped, but some responses could not be stored, or a
     worker crashed meanwhile: the log lists them
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
    add(
        "--store",
        metavar="PATH|URL|none",
        help="where to store responses: a file, or postgresql://HOST/DATABASE for workers on any machine "
        "(default: a file in your data folder)",
    )
    add(
        "--redis",
        metavar="URL",
        help="a Redis or Valkey server, for faster messages between such workers",
    )
    add(
        "--record",
        action="store_true",
        default=None,
        help="also store the upstreams' bytes, for penstock replay",
    )
    add(
        "--workers",
        metavar="N|auto",
        type=_workers,
        help="processes that share the address and the store (default: 1; auto: one per processor)",
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


def _workers(text: str) -> int:
    from penstock.gateway.config.values import MOST_WORKERS, InvalidValue, worker_number

    try:
        return worker_number(int(text) if text.isdecimal() else text)
    except InvalidValue:
        message = f"{text!r} is not a number of workers: use a number from 1 to {MOST_WORKERS}, or auto"
        raise argparse.ArgumentTypeError(message) from None


def run(options: argparse.Namespace) -> int:
    from penstock.errors import (  # imported here to keep --help fast
        ConfigError,
        PenstockError,
        StoreError,
    )
    from penstock.gateway.config.file import find_config
    from penstock.gateway.config.options import WORKER_VARIABLE, OptionError, settings_from
    from penstock.gateway.telemetry.logs import set_up

    if descriptor := os.environ.pop(WORKER_VARIABLE, ""):
        return _run_worker(descriptor)
    path = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    given = serve_options(options)
    try:
        settings = settings_from(given, path, os.environ)
        if settings.workers != 1 and sys.platform == "win32":
            raise OptionError("--workers: Windows has no workers; start one gateway, without this option")
        sockets = _listen(settings)
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None
    except PenstockError as error:
        raise UsageError(_with_advice(error)) from None
    ready_file = _ready_file(options.ready_file)
    set_up(settings.log_level, width=lambda: terminal_width(sys.stderr))
    try:
        lost, crashed = _serve(settings, sockets, given, path, ready_file)
    except (StoreError, ConfigError) as error:
        raise UsageError(f"--store: {error}") from None
    except PenstockError as error:
        raise UsageError(str(error)) from None
    if lost:
        message = f"{counted(lost, 'response')} could not be written to the store: the log lists them"
        write_error(message)
    return PROBLEM if lost or crashed else OK


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
        redis=options.redis,
        record=options.record,
        metrics=options.metrics,
        workers=options.workers,
    )


def _serve(
    settings: Settings,
    sockets: ListeningSockets,
    given: ServeOptions,
    path: Path | None,
    ready_file: Path | None,
) -> tuple[int, int]:
    """Serve until stopped; return the numbers of responses that could not be stored, and of workers that
    crashed meanwhile."""
    from penstock.application import open_app
    from penstock.editor.route import own_url
    from penstock.gateway.config.options import reloaded_settings
    from penstock.gateway.server import run as serve
    from penstock.gateway.server import url_of
    from penstock.store.memory import MemoryStore

    # The configured port may be 0.
    url = url_of(sockets.own) if sockets.own else own_url(settings.host, sockets.main.getsockname()[1])
    metrics = f"{url_of(sockets.metrics)}/metrics" if sockets.metrics else ""

    def ready(url: str) -> None:
        _ready(url, ready_file, metrics)

    def reload() -> Settings:
        return reloaded_settings(given, path, os.environ)

    if settings.workers == 1:
        lost = serve(
            lambda: open_app(settings, url=url),
            sockets,
            ready=ready,
            announce=lambda url, settings, store: _announce(
                url, settings, path, metrics, is_in_memory=isinstance(store, MemoryStore)
            ),
            watch=path,
            reload=reload,
        )
        return len(lost), 0
    from penstock.gateway.workers.supervisor import supervise

    stopped = supervise(
        settings,
        sockets,
        own_url=url,
        ready=ready,
        announce=lambda url, settings: _announce(url, settings, path, metrics, is_in_memory=False),
        watch=path,
        reload=reload,
    )
    return stopped.lost, stopped.crashed


def _run_worker(descriptor: str) -> int:
    """Run as one of several workers. The supervisor reports why one cannot start, and what was lost."""
    from penstock.application import open_app
    from penstock.errors import ConfigError, StoreError
    from penstock.gateway.telemetry.logs import set_up
    from penstock.gateway.workers.worker import NotAWorker, receive_orders, run_worker

    try:
        start, connection = receive_orders(descriptor)
    except NotAWorker as error:
        raise UsageError(str(error)) from None
    settings = start.settings
    set_up(settings.log_level, width=lambda: terminal_width(sys.stderr), worker=start.number)
    try:
        lost = run_worker(start, connection, lambda: open_app(settings, url=start.url, is_worker=True))
    except (StoreError, ConfigError):
        return USAGE
    return PROBLEM if lost else OK


def _listen(settings: Settings) -> ListeningSockets:
    """Open the socket of the gateway, and that of the metrics if they have an address of their own."""
    from penstock.gateway.server import ListeningSockets, listen

    listening = listen(settings.host, settings.port)
    try:
        metrics = listen(*settings.metrics) if settings.metrics else None
        # The certificate may not be valid for a local address.
        own = listen("127.0.0.1", 0) if settings.tls_cert else None
    except BaseException:
        listening.close()
        raise
    return ListeningSockets(main=listening, own=own, metrics=metrics)


def _ready_file(name: str | None) -> Path | None:
    """Return the path, and remove an old file so that its URL is not mistaken for the new one."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.unlink(missing_ok=True)
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)  # in a shared folder, it may be a link of another user
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError as error:
        raise UsageError(f"--ready-file: cannot write {name}: {error.strerror}") from None
    return path


def _with_advice(error: Exception) -> str:
    advice = ". Is another gateway running? --port 0 picks a free port" if "in use" in str(error) else ""
    return f"{error}{advice}"


def _ready(url: str, ready_file: Path | None, metrics: str) -> None:
    """Print the line that programs wait for, and write the ready file."""
    from penstock.cli.banner import write
    from penstock.gateway.service_manager import tell_ready
    from penstock.gateway.telemetry.logs import log

    if metrics:
        log.info("%s", f"metrics are at {metrics}")
    write([f"Penstock is ready at {url}/v1"])
    if ready_file is not None:
        # Replace atomically, so that a waiting process never reads half of it.
        temporary = ready_file.with_name(ready_file.name + ".new")
        temporary.write_text(url + "\n")
        temporary.replace(ready_file)
    tell_ready(url)


async def _announce(
    url: str, settings: Settings, path: Path | None, metrics: str, *, is_in_memory: bool
) -> None:
    from penstock.cli.banner import ServedGateway, announce, store_in_words
    from penstock.gateway.storage import default_path

    served = ServedGateway(
        url=url,
        settings=settings,
        file=path,
        store=store_in_words(settings, default_path(os.environ), is_in_memory=is_in_memory),
        metrics=metrics,
    )
    await announce(served, Terminal())
