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
from penstock.dialects.table import RENDERED
from penstock.formatting import counted

if TYPE_CHECKING:
    from socket import socket

    from penstock.dialects.presets import Preset
    from penstock.gateway.settings import Settings
    from penstock.upstream.target import UpstreamTarget

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

_TARGET = "upstream"
"""The name of the target that the options describe."""


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
    from penstock.gateway.server import listen
    from penstock.gateway.telemetry.logs import set_up

    path = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    try:
        settings = _settings(options, path)
        listening = listen(settings.host, settings.port)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    except PenstockError as error:
        raise UsageError(_advised(error)) from None
    ready_file = _ready_file(options.ready_file)
    set_up(settings.log_level)
    try:
        lost = _serve(settings, listening, options, path, ready_file)
    except (StoreError, ConfigError) as error:
        raise UsageError(f"--store: {error}") from None
    if not lost:
        return OK
    count = counted(len(lost), "response")
    print(f"penstock: {count} could not be written to the store: the log names each", file=sys.stderr)
    return FOUND


def _serve(
    settings: Settings,
    listening: socket,
    options: argparse.Namespace,
    path: Path | None,
    ready_file: Path | None,
) -> list[str]:
    """Until it is stopped; the ids of the responses that are lost."""
    from penstock.editor.route import editor_routes, own_url
    from penstock.gateway.history.sealing import load_sealer
    from penstock.gateway.server import run as serve
    from penstock.gateway.storage import open_store, secret_folder

    return serve(
        settings,
        listening,
        store=lambda: open_store(settings.store, os.environ),
        sealer=load_sealer(os.environ, secret_folder(settings.store, os.environ)),
        ready=lambda url: _tell(url, settings, path, ready_file),
        reload=lambda: _settings_again(options, path),
        routes=editor_routes(own_url(settings.host, listening.getsockname()[1])),
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


def _settings_again(options: argparse.Namespace, path: Path | None) -> Settings:
    """The same for a gateway that runs: whatever is wrong is a matter of its settings."""
    from penstock.errors import ConfigError

    try:
        return _settings(options, path)
    except UsageError as error:
        raise ConfigError(str(path or "the options"), 0, str(error)) from None


def _advised(error: Exception) -> str:
    advice = ". Is another one running? --port 0 picks a free port" if "in use" in str(error) else ""
    return f"{error}{advice}"


def _settings(options: argparse.Namespace, path: Path | None) -> Settings:
    """What the file says, and the options over it."""
    from msgspec.structs import replace

    from penstock.gateway.config.file import load_settings
    from penstock.gateway.settings import Settings

    settings = load_settings(path, os.environ) if path else Settings()
    named = {
        "host": options.host,
        "port": options.port,
        "log_level": options.log_level,
        "store": options.store,
        "record": options.record,
    }
    settings = replace(settings, **{name: value for name, value in named.items() if value is not None})
    target = _target(options)
    if target is not None:
        settings = _with_target(settings, target, options.model)
    elif options.model:
        raise UsageError("--model: say where it is, with --upstream URL or --preset NAME")
    _check_host(settings)
    return settings


def _with_target(settings: Settings, target: UpstreamTarget, models: list[str]) -> Settings:
    """The target of the options takes the named models, or every name that nothing else has."""
    from msgspec.structs import replace

    from penstock.gateway.settings import DEMO, ModelRoute, Step

    targets = (*(each for each in settings.targets if each.name != target.name), target)
    if not models:
        return replace(settings, targets=targets, passthrough=target.name)
    if DEMO in models:
        raise UsageError("--model: demo is the model that is built in; it is always there")
    routes = {name: ModelRoute(name=name, steps=(Step(target.name, name),)) for name in models}
    default = settings.default_model or models[0]
    return replace(settings, targets=targets, models={**settings.models, **routes}, default_model=default)


def _target(options: argparse.Namespace) -> UpstreamTarget | None:
    from penstock.dialects.plan import Quirks
    from penstock.errors import InvalidRequestError
    from penstock.gateway.config.targets import default_key_header
    from penstock.upstream.http import HttpUpstream
    from penstock.upstream.target import UpstreamTarget

    if not options.upstream and not options.preset:
        if options.dialect or options.api_key_env:
            raise UsageError(
                "--dialect and --api-key-env are for an upstream: add --upstream URL or --preset NAME"
            )
        return None
    preset = _preset(options)
    dialect = options.dialect or (preset.dialect if preset else "chat")
    base_url = _base_url(options.upstream, preset)
    keys = _keys(options.api_key_env, preset, base_url)
    target = UpstreamTarget(
        name=preset.name if preset else _TARGET,
        base_url=base_url,
        dialect=dialect,
        preset=preset.name if preset else "",
        key_header=default_key_header(dialect, preset),
        keys=keys,
        pass_key=not keys,
        quirks=preset.quirks if preset else Quirks(),
    )
    try:
        HttpUpstream(target)  # what is wrong with it shows here, and not with the first request
    except InvalidRequestError as error:
        raise UsageError(f"--upstream: {error.message}") from None
    return target


def _preset(options: argparse.Namespace) -> Preset | None:
    """The named one, or the one whose address this is: its quirks are needed there."""
    from penstock.dialects import presets

    if options.preset:
        try:
            return presets.preset(options.preset)
        except LookupError as error:
            raise UsageError(f"--preset: {error.args[0]}") from None
    host = _host(options.upstream)
    return next((row for row in presets.PRESETS.values() if host and _host(row.base_url) == host), None)


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).netloc
    except ValueError:  # told when the address is read
        return ""


def _base_url(given: str | None, preset: Preset | None) -> str:
    if given:
        return str(given)
    if preset is None or "{" in preset.base_url:
        raise UsageError(f"--preset: add your own address: --upstream {preset.base_url if preset else 'URL'}")
    return preset.base_url


def _keys(named: str | None, preset: Preset | None, base_url: str) -> tuple[str, ...]:
    """A vendor's key goes to the vendor: to another address only when it is named with it."""
    is_vendor = preset is not None and ("{" in preset.base_url or _host(base_url) == _host(preset.base_url))
    variable = named or (preset.key_variable if preset is not None and is_vendor else "")
    key = os.environ.get(variable, "").strip() if variable else ""
    if named and not key:
        raise UsageError(f"--api-key-env: the variable {named} is not set, or empty; it must hold the key")
    return (key,) if key else ()


def _check_host(settings: Settings) -> None:
    from penstock.gateway.http.access import is_exposed

    if is_exposed(settings):
        raise UsageError(
            f"--host {settings.host}: everybody who reaches this machine could use the gateway and its keys. "
            "Make a key first: penstock keys create NAME"
        )


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
