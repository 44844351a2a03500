"""`penstock.toml`: read into `Settings`, or refused with everything that is wrong in it, line by line.

docs/configuration.md has all settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, InvalidRequestError
from penstock.gateway.config.keys import read_keys
from penstock.gateway.config.models import ModelNames
from penstock.gateway.config.targets import read_targets
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import (
    ABOVE,
    ConfigTable,
    Problems,
    Wrong,
    flag,
    one_of,
    seconds,
    seconds_or_off,
    size,
    some_seconds,
    whole,
    whole_or_off,
    word,
)
from penstock.gateway.http.access import plain_host, read_origin
from penstock.gateway.settings import LOG_LEVELS, Limits, Settings
from penstock.stream.accents import ACCENTS
from penstock.upstream.http import HttpUpstream

NAME = "penstock.toml"

SERVER = ("host", "port", "log_level", "store", "record", "websocket", "allowed_hosts", "allowed_origins")
LIMITS: dict[str, Callable[[object], float | None]] = {
    "body_bytes": size,
    "answer_bytes": size,
    "input_items": whole(1, 10_000_000),
    "tools": whole(1, 1_000_000),
    "content_parts": whole(1, 10_000_000),
    "body_values": whole(1000, 100_000_000),
    "patience": seconds,
    "comment_every": some_seconds,
    "event_every": some_seconds,
    "retries": whole(0, 100),
    "retry_wait": seconds,
    "client_timeout": seconds_or_off,
    "drain": seconds,
    "disconnect_grace": seconds,
    "store_days": whole(1, 36_500),
    "store_bytes": size,
    "max_turns": whole_or_off,
}
"""Every field of `Limits`, and what reads it."""
TOP = ("default_model", "passthrough", "server", "limits", "targets", "models", "aliases", "accents", "keys")

_ELSEWHERE = {
    **dict.fromkeys(SERVER, "it belongs under [server]"),
    **dict.fromkeys(LIMITS, "it belongs under [limits]"),
    "target": "a target is written as [targets.NAME]",
    "model": "a model is written as [models.NAME]",
    "alias": "did you mean [aliases]?",
    "key": "a key is written as [[keys]], by `penstock keys create NAME`",
}


def find_config(cwd: Path, environment: Mapping[str, str]) -> Path | None:
    """The file that is read when none is named: here, or else among the user's settings."""
    places = [cwd / NAME]
    # The specification of these folders says that a relative path counts as none.
    if (folder := Path(environment.get("XDG_CONFIG_HOME", ""))).is_absolute():
        places.append(folder / "penstock" / NAME)
    elif home := environment.get("HOME") or environment.get("USERPROFILE"):
        places.append(Path(home) / ".config" / "penstock" / NAME)
    return next((place for place in places if place.is_file()), None)


def load_settings(path: Path, environment: Mapping[str, str]) -> Settings:
    """Read a file. `ConfigError` says why it cannot be read, or everything that is wrong in it."""
    return read_settings(read_text(path), file=str(path), environment=environment)


def read_text(path: Path) -> str:
    """The text of a configuration file, with its line ends as they are."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(str(path), 0, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), 0, "is no text in UTF-8: save it as UTF-8") from None


def read_settings(text: str, *, file: str, environment: Mapping[str, str]) -> Settings:
    """The settings that a text has. `file` is its name, for messages and for the files that it names.

    `ConfigError` has everything that is wrong, not only the first thing.
    """
    document = parse(text, file)
    problems = Problems(file, TomlLines(text))
    settings = _read(ConfigTable(document, (), problems), file, environment)
    problems.tell()
    for target in settings.targets:
        try:
            HttpUpstream(target)  # what the environment makes of it, a proxy for instance, shows only here
        except InvalidRequestError as error:
            problems.add(("targets", target.name), error.message)
    problems.tell()
    return settings


def _read(top: ConfigTable, file: str, environment: Mapping[str, str]) -> Settings:
    top.only(TOP, _ELSEWHERE)
    targets = top.table("targets")
    names = ModelNames(top, targets.values.keys())
    server = top.table("server")
    server.only(SERVER, ABOVE)
    plain = Settings()
    return Settings(
        host=server.read("host", _bound_host, plain.host),
        port=server.read("port", whole(0, 65535), plain.port),
        log_level=server.read("log_level", one_of("log level", LOG_LEVELS), plain.log_level),
        store=server.read("store", word, plain.store),
        record=server.read("record", flag, plain.record),
        websocket=server.read("websocket", flag, plain.websocket),
        allowed_hosts=_each(server, "allowed_hosts", _allowed_host),
        allowed_origins=_each(server, "allowed_origins", _allowed_origin),
        limits=_limits(top.table("limits")),
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


def _each(table: ConfigTable, name: str, reader: Callable[[str], str]) -> tuple[str, ...]:
    """What a reader makes of every text in a list."""
    found: list[str] = []
    for index, text in table.texts(name).items():
        try:
            found.append(reader(text))
        except Wrong as wrong:
            table.wrong(str(wrong), name, index)
    return tuple(found)


def _bound_host(value: object) -> str:
    host = word(value)
    if plain_host(host) is None:
        raise Wrong(
            'must be a name or an address alone, such as "127.0.0.1"; the port is a setting of its own'
        )
    return host.strip("[]")


def _allowed_host(text: str) -> str:
    host = plain_host(text)
    if host is None or "*" in host:
        raise Wrong(
            'must be the name of a host alone, such as "gateway.example": no scheme, port or asterisk'
        )
    return host


def _allowed_origin(text: str) -> str:
    if read_origin(text) is None:
        raise Wrong(
            'must be an origin, such as "https://app.example": a scheme and a host, and nothing behind them. '
            "There is no sign for every origin: any web page could use the gateway then"
        )
    return text.lower()


def _accents(table: ConfigTable) -> dict[str, str]:
    accent = one_of("accent", ACCENTS)
    found: dict[str, str] = {}
    for name in table.values:
        if not name.strip():
            table.wrong('must be the beginning of a User-Agent, such as "my-agent/"', name)
        found[name.lower()] = table.read(name, accent, "")
    return found
