"""Merge the options of `penstock serve` with a configuration file into `Settings`.

Options override environment variables, and these override the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects import presets
from penstock.dialects.plan import Quirks
from penstock.dialects.presets import Preset
from penstock.errors import ConfigError, InvalidRequestError, PenstockError
from penstock.gateway.config.file import load_settings
from penstock.gateway.config.store import store_url
from penstock.gateway.config.targets import default_key_header
from penstock.gateway.config.values import AUTO, InvalidValue
from penstock.gateway.http.access import are_metrics_exposed, is_exposed
from penstock.gateway.settings import DEMO, ModelRoute, RouteStep, Settings
from penstock.gateway.storage import NONE
from penstock.secret_variables import secret_variable
from penstock.store import is_url
from penstock.upstream.http import HttpUpstream
from penstock.upstream.target import UpstreamTarget

HOST_VARIABLE = "PENSTOCK_HOST"
PORT_VARIABLE = "PENSTOCK_PORT"
STORE_VARIABLE = "PENSTOCK_STORE"
REDIS_VARIABLE = "PENSTOCK_REDIS"
WORKER_VARIABLE = "PENSTOCK_WORKER"
"""For internal use: tells a worker the descriptor of its connection to the supervisor."""
HIGHEST_PORT = 65535

_TARGET = "upstream"
"""The name of the target that the options describe, if it has no preset."""


class OptionError(PenstockError):
    """An invalid option or variable; the message contains its name and what to do."""


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The command-line options. If one is None or empty, the configuration file's value applies."""

    upstream: str = ""
    """The base URL of an additional target."""
    preset: str = ""
    dialect: str = ""
    api_key_env: str = ""
    models: tuple[str, ...] = ()
    """The models of that target; empty: it gets every name that is not defined otherwise."""
    host: str | None = None
    port: int | None = None
    log_level: str | None = None
    store: str | None = None
    redis: str | None = None
    record: bool | None = None
    metrics: tuple[str, int] | None = None
    workers: int | None = None
    """0: one for each processor."""


def settings_from(options: ServeOptions, file: Path | None, environment: Mapping[str, str]) -> Settings:
    """Return the settings; raise `ConfigError` for errors in the file, `OptionError` for invalid options."""
    settings = load_settings(file, environment) if file else Settings()
    changed = overrides(options, environment)
    settings = replace(settings, **{name: value for name, (value, _) in changed.items()})
    target = _target(options, environment)
    if target is not None:
        settings = _with_target(settings, target, options.models)
    elif options.models:
        raise OptionError("--model needs an upstream: add --upstream URL or --preset NAME")
    if is_exposed(settings):
        source = changed["host"][1] if "host" in changed else f"{file}: server.host"
        raise OptionError(
            f"{source} {settings.host}: anyone who can reach this machine could use the gateway and its "
            "keys. Create a key first: penstock keys create NAME"
        )
    check_metrics_address(settings)
    _check_store(settings, {name: source for name, (_, source) in changed.items()})
    if settings.workers != 1 and settings.store == NONE:
        raise OptionError(
            f"--workers {settings.workers or AUTO}: with --store none, a response would be known to only one"
            " worker; let them share a store (--store PATH), or use one worker"
        )
    return settings


def _check_store(settings: Settings, sources: Mapping[str, str]) -> None:
    """Raise `OptionError` for a URL of an option or a variable that cannot be used."""
    for name, setting in (("store", "url"), ("redis", "redis")):
        if name in sources:
            try:
                store_url(getattr(settings, name), setting)
            except InvalidValue as wrong:
                raise OptionError(f"{sources[name]}: {wrong}") from None
    if settings.redis and not is_url(settings.store):
        source = sources.get("redis", "store.redis")
        raise OptionError(
            f"{source}: only workers that share a database use it; add --store postgresql://HOST/DATABASE"
        )


def overrides(options: ServeOptions, environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Return the settings under `[server]` that options or variables set: the value, and which of them set
    it."""
    found: dict[str, tuple[Any, str]] = {}
    for name in _SERVER_OPTIONS:
        value, source = getattr(options, name), f"--{name.replace('_', '-')}"
        if value in (None, "") and name in _VARIABLES:
            source, read = _VARIABLES[name]
            value = read(source, environment)
        if value not in (None, ""):
            found[name] = (value, source)
    return found


def _text(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name, "").strip()


def _port(name: str, environment: Mapping[str, str]) -> int | None:
    text = _text(name, environment)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > HIGHEST_PORT:
        raise OptionError(f"{PORT_VARIABLE}: must be a number from 0 to {HIGHEST_PORT}; 0 picks a free port")
    return int(text)


_SERVER_OPTIONS = ("host", "port", "log_level", "store", "redis", "record", "metrics", "workers")
_VARIABLES: dict[str, tuple[str, Callable[[str, Mapping[str, str]], object]]] = {
    "host": (HOST_VARIABLE, _text),
    "port": (PORT_VARIABLE, _port),
    "store": (STORE_VARIABLE, secret_variable),  # URLs may contain passwords
    "redis": (REDIS_VARIABLE, secret_variable),
}
"""The settings that an environment variable can set, each with the variable and its reader."""


def check_metrics_address(settings: Settings) -> None:
    """Raise `OptionError` if other machines could read the metrics without a token."""
    if settings.metrics is not None and are_metrics_exposed(settings):
        raise OptionError(
            f"--metrics {settings.metrics[0]}: anyone who can reach this machine could read the metrics. Put "
            "a token into a variable and its name into server.metrics_token_env; or use 127.0.0.1"
        )


def reloaded_settings(options: ServeOptions, file: Path | None, environment: Mapping[str, str]) -> Settings:
    """Return the settings for a running gateway; raise `ConfigError` for all errors."""
    try:
        return settings_from(options, file, environment)
    except OptionError as error:
        raise ConfigError(str(file or "the options"), 0, str(error)) from None


def _with_target(settings: Settings, target: UpstreamTarget, models: tuple[str, ...]) -> Settings:
    """Add the target of the options, with its models, or for every name that is not defined otherwise."""
    targets = (*(each for each in settings.targets if each.name != target.name), target)
    if not models:
        return replace(settings, targets=targets, passthrough=target.name)
    if DEMO in models:
        raise OptionError("--model: demo is the built-in model, which is always available; use another name")
    routes = {name: ModelRoute(name=name, steps=(RouteStep(target.name, name),)) for name in models}
    default = settings.default_model or models[0]
    return replace(settings, targets=targets, models={**settings.models, **routes}, default_model=default)


def _target(options: ServeOptions, environment: Mapping[str, str]) -> UpstreamTarget | None:
    if not options.upstream and not options.preset:
        if options.dialect or options.api_key_env:
            raise OptionError(
                "--dialect and --api-key-env need an upstream: add --upstream URL or --preset NAME"
            )
        return None
    preset = _preset(options)
    dialect = options.dialect or (preset.dialect if preset else "chat")
    base_url = _base_url(options.upstream, preset)
    variable = options.api_key_env or _own_variable(preset, base_url)
    key = secret_variable(variable, environment) if variable else ""
    if options.api_key_env and not key:
        raise OptionError(f"--api-key-env: the variable {variable} is unset or empty; set it to the key")
    target = UpstreamTarget(
        name=preset.name if preset else _TARGET,
        base_url=base_url,
        dialect=dialect,
        preset=preset.name if preset else "",
        key_header=default_key_header(dialect, preset),
        keys=(key,) if key else (),
        key_names=(variable,) if key else (),
        missing_key=f"set {variable}" if variable else "start the gateway with --api-key-env NAME",
        pass_key=not key,
        quirks=preset.quirks if preset else Quirks(),
    )
    try:
        HttpUpstream(target)  # reports errors here instead of at the first request
    except InvalidRequestError as error:
        is_of_a_variable = error.code == "unsupported_proxy"
        raise OptionError(error.message if is_of_a_variable else f"--upstream: {error.message}") from None
    return target


def _preset(options: ServeOptions) -> Preset | None:
    """Return the preset by name, or the one with the upstream's address, whose quirks are needed there."""
    if options.preset:
        try:
            return presets.preset(options.preset)
        except LookupError as error:
            raise OptionError(f"--preset: {error.args[0]}") from None
    host = _host(options.upstream)
    return next((row for row in presets.PRESETS.values() if host and _host(row.base_url) == host), None)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:  # reported when the address is read
        return ""


def _base_url(given: str, preset: Preset | None) -> str:
    if given:
        return given
    if preset is None or "{" in preset.base_url:
        raise OptionError(
            f"--preset: add your own address with --upstream {preset.base_url if preset else 'URL'}"
        )
    return preset.base_url


def _own_variable(preset: Preset | None, base_url: str) -> str:
    """Return the variable of the vendor's key. That key is sent to another address only if the options name
    its variable."""
    is_vendor = preset is not None and ("{" in preset.base_url or _host(base_url) == _host(preset.base_url))
    return preset.key_variable if preset is not None and is_vendor else ""
