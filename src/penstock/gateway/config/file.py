"""Read `penstock.toml` into `Settings`, or report all of its errors with their lines.

docs/configuration.md lists all settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.errors import ConfigError, InvalidRequestError
from penstock.gateway.config.keys import read_keys
from penstock.gateway.config.models import ModelNames
from penstock.gateway.config.routing import ROUTING, read_routing
from penstock.gateway.config.secrets import variable
from penstock.gateway.config.store import STORE, read_store
from penstock.gateway.config.targets import file_relative_to, read_targets
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import (
    ABOVE,
    ConfigTable,
    InvalidValue,
    Problems,
    ValueReader,
    flag,
    nonempty,
    number_or_auto,
    number_or_off,
    one_of,
    positive_seconds,
    reads,
    seconds,
    seconds_or_off,
    size,
    whole_number,
    worker_number,
)
from penstock.gateway.http.access import key_digest, plain_host, read_origin
from penstock.gateway.settings import LOG_LEVELS, ClientKey, Limits, Settings, TelemetrySettings
from penstock.net.tls import InvalidCertificate, server_tls_context
from penstock.stream.accents import ACCENTS
from penstock.upstream.http import HttpUpstream

NAME = "penstock.toml"
CONFIG_VARIABLE = "PENSTOCK_CONFIG"
"""The environment variable that names the file, unless an option does."""

SERVER = (
    *("host", "port", "tls_cert", "tls_key", "log_level", "store", "workers", "record", "websocket"),
    *("inspector", "allowed_hosts", "allowed_origins", "metrics", "metrics_token_env"),
)
LIMITS: dict[str, ValueReader[int] | ValueReader[float] | ValueReader[float | None]] = {
    "body_bytes": size,
    "answer_bytes": size,
    "output_items": whole_number(1, 10_000_000),
    "input_items": whole_number(1, 10_000_000),
    "tools": whole_number(1, 1_000_000),
    "content_parts": whole_number(1, 10_000_000),
    "body_values": whole_number(1000, 100_000_000),
    "patience": seconds,
    "comment_every": positive_seconds,
    "event_every": positive_seconds,
    "retries": whole_number(0, 100),
    "retry_wait": seconds,
    "client_timeout": seconds_or_off,
    "drain": seconds,
    "disconnect_grace": seconds,
    "store_days": whole_number(1, 36_500),
    "ledger_days": whole_number(1, 36_500),
    "store_bytes": size,
    "max_turns": number_or_off,
    "connections": number_or_auto,
}
"""Every field of `Limits` with its reader."""
TELEMETRY = ("enabled", "content", "propagate")
PORT = whole_number(0, 65535)
TOP = (
    "default_model",
    "passthrough",
    "server",
    "store",
    "limits",
    "routing",
    "telemetry",
    "targets",
    "models",
    "aliases",
    "accents",
    "keys",
)

_ELSEWHERE = {
    **dict.fromkeys(SERVER, "it belongs under [server]"),
    **dict.fromkeys(LIMITS, "it belongs under [limits]"),
    **dict.fromkeys(STORE, "it belongs under [store]"),
    **dict.fromkeys(ROUTING, "it belongs under [routing]"),
    **dict.fromkeys(TELEMETRY, "it belongs under [telemetry]"),
    "target": "write a target as [targets.NAME]",
    "model": "write a model as [models.NAME]",
    "alias": "did you mean [aliases]?",
    "key": "write a key as [[keys]]; `penstock keys create NAME` does it",
}


def find_config(cwd: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the default configuration file: the one that the environment names, whether or not it exists;
    otherwise the one in this folder or in the user's configuration folder."""
    if named := environment.get(CONFIG_VARIABLE, "").strip():
        return cwd / named
    places = [cwd / NAME]
    # The XDG specification says that a relative path must be ignored.
    if (folder := Path(environment.get("XDG_CONFIG_HOME", ""))).is_absolute():
        places.append(folder / "penstock" / NAME)
    elif home := environment.get("HOME") or environment.get("USERPROFILE"):
        places.append(Path(home) / ".config" / "penstock" / NAME)
    return next((place for place in places if place.is_file()), None)


def load_settings(path: Path, environment: Mapping[str, str]) -> Settings:
    """Read a file; raise `ConfigError` if it cannot be read, or with all of its errors."""
    return read_settings(read_text(path, environment), file=str(path), environment=environment)


def load_keys(path: Path, environment: Mapping[str, str]) -> tuple[tuple[ClientKey, ...], str]:
    """Return the keys of a file, and its store. Raise `ConfigError` for errors in these; others are ignored:
    the variables of its targets may be set only where the gateway runs."""
    text = read_text(path, environment)
    problems = Problems(str(path), TomlLines(text))
    top = ConfigTable(parse(text, str(path)), (), problems)
    keys = read_keys(top.array("keys"))
    server = top.table("server")
    written = server.read("store", nonempty, "")
    store = read_store(top.table("store"), server, environment).get("store", written)
    problems.raise_any()
    return keys, store


class ServedAddress(Struct, frozen=True):
    """Where a gateway listens."""

    host: str
    port: int
    has_tls: bool


def load_address(path: Path | None, environment: Mapping[str, str]) -> ServedAddress:
    """Read the address in a file. Raise `ConfigError` for errors in it; others are ignored: a file that was
    broken while its gateway runs does not stop that one."""
    text = read_text(path, environment) if path else ""
    problems = Problems(str(path), TomlLines(text))
    server = ConfigTable(parse(text, str(path)), (), problems).table("server")
    plain = Settings()
    address = ServedAddress(
        host=server.read("host", _bound_host, plain.host),
        port=server.read("port", PORT, plain.port),
        has_tls="tls_cert" in server,
    )
    problems.raise_any()
    return address


def read_text(path: Path, environment: Mapping[str, str]) -> str:
    """Return the text of a configuration file with its line endings unchanged."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        named = named_by_variable(path, environment)
        raise ConfigError(str(path), 0, f"cannot be read: {error.strerror or error}{named}") from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), 0, "is not UTF-8 text: save it as UTF-8") from None


def named_by_variable(path: Path, environment: Mapping[str, str]) -> str:
    """Return the end of a message about a file: the variable that names the file, if it does."""
    named = environment.get(CONFIG_VARIABLE, "").strip()
    if not named or os.path.abspath(named) != os.path.abspath(path):
        return ""
    return f"; the environment variable {CONFIG_VARIABLE} names this file"


def read_settings(text: str, *, file: str, environment: Mapping[str, str]) -> Settings:
    """Return the settings of a text. `file` is its path, for messages and for relative paths in it.

    Raise `ConfigError` with all errors, not only the first.
    """
    document = parse(text, file)
    problems = Problems(file, TomlLines(text))
    settings = _read(ConfigTable(document, (), problems), file, environment)
    problems.raise_any()
    for target in settings.targets:
        try:
            HttpUpstream(target)  # finds errors that depend on the environment, such as an invalid proxy
        except InvalidRequestError as error:
            if error.code == "unsupported_proxy":  # a variable is wrong, not the file
                variable, _, message = error.message.partition(": ")
                raise ConfigError(variable, 0, message) from None
            problems.add(("targets", target.name), error.message)
    problems.raise_any()
    if settings.telemetry.enabled:
        from penstock.gateway.telemetry.otel.variables import read_variables

        read_variables(environment)  # raises an error that names the variable
    return settings


def _read(top: ConfigTable, file: str, environment: Mapping[str, str]) -> Settings:
    top.only(TOP, _ELSEWHERE)
    targets = top.table("targets")
    names = ModelNames(top, targets.values.keys())
    server = top.table("server")
    server.only(SERVER, ABOVE)
    plain = Settings()
    certificate, key = _tls_files(server, file)
    written_store = server.read("store", nonempty, plain.store)
    store: dict[str, Any] = {"store": written_store, **read_store(top.table("store"), server, environment)}
    return Settings(
        host=server.read("host", _bound_host, plain.host),
        port=server.read("port", PORT, plain.port),
        metrics=server.read("metrics", metrics_address, None),
        metrics_digest=server.read("metrics_token_env", _token_digest(environment), b""),
        tls_cert=certificate,
        tls_key=key,
        log_level=server.read("log_level", one_of("log level", LOG_LEVELS), plain.log_level),
        **store,
        workers=server.read("workers", worker_number, plain.workers),
        record=server.read("record", flag, plain.record),
        websocket=server.read("websocket", flag, plain.websocket),
        inspector=server.read("inspector", flag, plain.inspector),
        allowed_hosts=_each(server, "allowed_hosts", _allowed_host),
        allowed_origins=_each(server, "allowed_origins", _allowed_origin),
        limits=_limits(top.table("limits")),
        routing=read_routing(top.table("routing")),
        telemetry=_telemetry(top.table("telemetry")),
        targets=read_targets(targets, file, environment),
        models=names.routes,
        aliases=names.aliases,
        passthrough=names.passthrough,
        default_model=names.default,
        overrides=tuple(names.overrides),
        accents=_accents(top.table("accents")),
        keys=read_keys(top.array("keys")),
    )


def _limits(table: ConfigTable) -> Limits:
    table.only(LIMITS, ABOVE)
    plain = Limits()
    values: dict[str, Any] = {
        name: table.read(name, reader, getattr(plain, name)) for name, reader in LIMITS.items()
    }
    return Limits(**values)


def _telemetry(table: ConfigTable) -> TelemetrySettings:
    table.only(TELEMETRY, ABOVE)
    found = TelemetrySettings(**{name: table.read(name, flag, False) for name in TELEMETRY})
    for name in ("content", "propagate"):
        if getattr(found, name) and not found.enabled:
            table.report("has no effect without enabled = true", name)
    return found


def _each(table: ConfigTable, name: str, reader: Callable[[str], str]) -> tuple[str, ...]:
    """Read every string of a list."""
    found: list[str] = []
    for index, text in table.texts(name).items():
        try:
            found.append(reader(text))
        except InvalidValue as error:
            table.report(str(error), name, index)
    return tuple(found)


def _tls_files(table: ConfigTable, file: str) -> tuple[str, str]:
    """Return the paths of the certificate and its key; load them to report errors with their line."""
    certificate, key = (table.read(name, file_relative_to(file), "") for name in ("tls_cert", "tls_key"))
    for name, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if name in table and other not in table:
            table.report(f"also needs {other}", name)
    if certificate and key:
        try:
            server_tls_context(certificate, key)
        except InvalidCertificate as error:
            table.report(str(error), "tls_cert")
    return certificate, key


@reads(type="string", pattern=r":[0-9]+\s*$")
def metrics_address(value: object) -> tuple[str, int]:
    """Read a host and a port, such as "127.0.0.1:9464"."""
    host, _, port = nonempty(value).rpartition(":")
    if plain_host(host) is None or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidValue('must be a host and a port, such as "127.0.0.1:9464" or "[::1]:9464"')
    return host.strip("[]"), int(port)


def _token_digest(environment: Mapping[str, str]) -> Callable[[object], bytes]:
    """Return a reader of the variable with the token for `/metrics`. Only the token's hash is kept."""
    return lambda value: key_digest(variable(nonempty(value), environment))


def _bound_host(value: object) -> str:
    host = nonempty(value)
    if plain_host(host) is None:
        raise InvalidValue(
            'must be only a name or an address, such as "127.0.0.1"; the port is a separate setting'
        )
    return host.strip("[]")


def _allowed_host(text: str) -> str:
    host = plain_host(text)
    if host is None or "*" in host:
        raise InvalidValue(
            'must be only a host name, such as "gateway.example", without scheme, port or asterisk'
        )
    return host


def _allowed_origin(text: str) -> str:
    if read_origin(text) is None:
        raise InvalidValue(
            'must be an origin, such as "https://app.example": a scheme and a host, and nothing after them. '
            "There is no wildcard, because it would let any web page use the gateway"
        )
    return text.lower()


def _accents(table: ConfigTable) -> dict[str, str]:
    accent = one_of("accent", ACCENTS)
    found: dict[str, str] = {}
    for name in table.values:
        if not name.strip():
            table.report('must be the prefix of a User-Agent, such as "my-agent/"', name)
        found[name.lower()] = table.read(name, accent, "")
    return found
