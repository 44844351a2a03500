"""`[targets.NAME]`: the upstreams that a configuration names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from penstock.dialects.gemini.thinking import EFFORTS as GEMINI_EFFORTS
from penstock.dialects.plan import Quirks
from penstock.dialects.presets import KEY_HEADERS, PRESETS, Preset
from penstock.dialects.presets.efforts import EFFORTS as CHAT_EFFORTS
from penstock.dialects.registry import DIALECTS, RENDERED, rendered_dialect
from penstock.errors import InvalidRequestError
from penstock.gateway.config.secrets import (
    SECRET_HEADERS,
    expanded,
    looks_secret,
    names_a_variable,
    variable,
    variables_in,
)
from penstock.gateway.config.values import (
    ABOVE,
    ConfigTable,
    Wrong,
    flag,
    one_of,
    seconds_or_off,
    text,
    unknown,
    word,
)
from penstock.gateway.settings import DEMO
from penstock.net.config import check_headers
from penstock.net.tls import tls_context
from penstock.net.urls import is_loopback, read_address, read_proxy
from penstock.upstream.target import UpstreamTarget

TARGET = (
    *("preset", "base_url", "dialect", "key_header", "keys", "pass_key", "headers", "quirks"),
    *("connect_timeout", "first_byte_timeout", "idle_timeout"),
    *("ca_file", "client_cert", "client_key", "proxy"),
)
"""What can be said of a target."""

_ELSEWHERE = {
    **ABOVE,
    # What people write who know other programs.
    "api_key": "name its environment variable in keys",
    "key": "name its environment variable in keys",
    "api_key_env": "name the variable in keys",
    "url": "did you mean base_url?",
    "type": "did you mean dialect?",
    "provider": "did you mean preset?",
    "timeout": "there are connect_timeout, first_byte_timeout and idle_timeout",
    "model": "it belongs under [models.NAME]",
}
_EFFORTS = {"", *CHAT_EFFORTS, *GEMINI_EFFORTS}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_Environment = Mapping[str, str]


def default_key_header(dialect: str, preset: Preset | None) -> str:
    """How a key is sent where nothing else is said: as the vendor wants it, or else the dialect."""
    return preset.key_header if preset else rendered_dialect(dialect).connection.key_header


def read_targets(tables: ConfigTable, file: str, environment: _Environment) -> tuple[UpstreamTarget, ...]:
    """All targets that can be used; what is wrong with the others is noted."""
    found = [_read_target(name, table, file, environment) for name, table in tables.tables()]
    return tuple(target for target in found if target is not None)


def _read_target(
    name: str, table: ConfigTable, file: str, environment: _Environment
) -> UpstreamTarget | None:
    if name == DEMO:
        table.wrong(f"{DEMO} is the model that is built in: give the target another name")
    elif not _NAME.fullmatch(name):
        table.wrong("a target's name has letters, digits, dots, dashes and underscores only")
    table.only(TARGET, _ELSEWHERE)
    named = table.read("preset", one_of("preset", PRESETS), "")
    preset = PRESETS.get(named)
    dialect = table.read("dialect", _dialect, preset.dialect if preset else "chat")
    base_url = _base_url(table, preset)
    is_passing = table.read("pass_key", flag, False)
    keys = _keys(table, preset, base_url, is_passing, environment)
    authorities, certificate, private_key = _tls_files(table, file)
    if not base_url:
        return None
    return UpstreamTarget(
        name=name,
        base_url=base_url,
        dialect=dialect,
        preset=named,
        quirks=_quirks(table, preset),
        key_header=table.read(
            "key_header", one_of("way to send a key", KEY_HEADERS), default_key_header(dialect, preset)
        ),
        keys=keys,
        pass_key=is_passing,
        headers=_headers(table, environment),
        secrets=_secrets(table, environment),
        connect_timeout=table.read("connect_timeout", seconds_or_off, _DEFAULT.connect_timeout),
        first_byte_timeout=table.read("first_byte_timeout", seconds_or_off, _DEFAULT.first_byte_timeout),
        idle_timeout=table.read("idle_timeout", seconds_or_off, _DEFAULT.idle_timeout),
        ca_file=authorities,
        client_cert=certificate,
        client_key=private_key,
        proxy=table.read("proxy", _proxy(environment), None),
    )


_DEFAULT = UpstreamTarget(name="", base_url="")


def _dialect(value: object) -> str:
    name = word(value)
    if name in DIALECTS and name not in RENDERED:
        raise Wrong(f"{name} can only be read, and a target must be written to: use {_list(RENDERED)}")
    return one_of("dialect", RENDERED)(name)


def _list(names: frozenset[str]) -> str:
    *first, last = sorted(names)
    return f"{', '.join(first)} or {last}"


def _base_url(table: ConfigTable, preset: Preset | None) -> str:
    given = table.read("base_url", _address, "")
    if given or "base_url" in table:
        return given
    if preset is None:
        if "preset" not in table:
            table.wrong('needs a base_url, such as "http://127.0.0.1:8000/v1", or a preset')
        return ""
    if "{" in preset.base_url:
        table.wrong(f'needs your own address: base_url = "{preset.base_url}", filled in')
        return ""
    return preset.base_url


def _address(value: object) -> str:
    url = word(value)
    if "{" in url.partition("?")[0]:
        raise Wrong("has a placeholder in braces: write your own name in its place")
    try:
        read_address(url)
    except InvalidRequestError as error:
        raise Wrong(error.message) from None
    return url


def _keys(
    table: ConfigTable, preset: Preset | None, base_url: str, is_passing: bool, environment: _Environment
) -> tuple[str, ...]:
    if "keys" not in table:
        return _preset_key(table, preset, base_url, is_passing, environment)
    found: dict[str, None] = {}
    for index, name in table.texts("keys").items():
        try:
            found[variable(name, environment)] = None
        except Wrong as wrong:
            # A target that sends the clients' own keys may do without one of its own.
            if not (is_passing and _is_unset(name, environment)):
                table.wrong(str(wrong), "keys", index)
    return tuple(found)


def _is_unset(name: str, environment: _Environment) -> bool:
    return not looks_secret(name) and not environment.get(name, "").strip()


def _preset_key(
    table: ConfigTable, preset: Preset | None, base_url: str, is_passing: bool, environment: _Environment
) -> tuple[str, ...]:
    """The vendor's key, where there is one. It goes to no other address by an oversight."""
    if preset is None or not environment.get(preset.key_variable, "").strip():
        return ()
    if base_url and not _is_at_home(base_url, preset):
        if not is_passing:
            table.wrong(
                f"is not {preset.title}'s own address, so say whether its key is sent there: "
                f'keys = ["{preset.key_variable}"], or keys = []',
                "base_url",
            )
        return ()
    try:
        return (variable(preset.key_variable, environment),)
    except Wrong as wrong:
        table.wrong(str(wrong))
        return ()


def _is_at_home(base_url: str, preset: Preset) -> bool:
    """Is this the vendor's address, or one on this machine?"""
    host = read_address(base_url).host
    if "{" in preset.base_url or is_loopback(host):
        return True
    return host == read_address(preset.base_url).host


def _headers(table: ConfigTable, environment: _Environment) -> dict[str, str]:
    headers = table.table("headers")
    return {
        name: value
        for name in headers.values
        if (value := headers.read(name, _header(name, environment), None)) is not None
    }


def _secrets(table: ConfigTable, environment: _Environment) -> tuple[str, ...]:
    """The values of all variables that are named where they end up in a request."""
    headers = table.values.get("headers")
    written = [*(headers.values() if isinstance(headers, dict) else ()), table.values.get("proxy")]
    named = (variables_in(each, environment) for each in written if isinstance(each, str))
    return tuple(dict.fromkeys(value for values in named for value in values))


def _header(name: str, environment: _Environment) -> Callable[[object], str]:
    def read(value: object) -> str:
        written = text(value)
        if name.lower() in SECRET_HEADERS and written and not names_a_variable(written):
            raise Wrong(
                "is a secret and does not belong into a file: put it into an environment variable, and write "
                '"$NAME" here'
            )
        found = expanded(written, environment)
        try:
            check_headers({name: found})
        except InvalidRequestError:
            raise Wrong("cannot be sent: a header has a plain name, and its value is one line") from None
        return found

    return read


def _proxy(environment: _Environment) -> Callable[[object], str]:
    def read(value: object) -> str:
        url = expanded(text(value).strip(), environment)
        if url:
            try:
                read_proxy(url)
            except InvalidRequestError as error:
                raise Wrong(error.message) from None
        return url

    return read


def _tls_files(table: ConfigTable, file: str) -> tuple[str | None, str | None, str | None]:
    """They are opened, so that a wrong one is told here and not with the first request."""
    names = ("ca_file", "client_cert", "client_key")
    authorities, certificate, key = (table.read(name, _file_beside(file), None) for name in names)
    are_there = [bool(each) for each in (authorities, certificate, key)] == [name in table for name in names]
    if "client_key" in table and "client_cert" not in table:
        table.wrong("needs client_cert beside it", "client_key")
    elif are_there:
        try:
            tls_context(authorities, certificate, key)
        except InvalidRequestError as error:
            table.wrong(error.message.partition(" ")[2], error.param or "ca_file")
    return authorities, certificate, key


def _file_beside(file: str) -> Callable[[object], str]:
    """Reads the name of a file; one that is not absolute is beside the configuration."""

    def read(value: object) -> str:
        path = os.path.join(os.path.dirname(file), os.path.expanduser(word(value)))
        if not os.path.isfile(path):
            raise Wrong("there is no such file; a relative name starts where the configuration is")
        return path

    return read


def _quirks(table: ConfigTable, preset: Preset | None) -> Quirks:
    """The preset's, with what is written over them."""
    base = preset.quirks if preset else Quirks()
    quirks = table.table("quirks")
    quirks.only(Quirks.__struct_fields__)
    said = {
        name: quirks.read(name, _quirk(name), getattr(base, name))
        for name in Quirks.__struct_fields__
        if name in quirks
    }
    return replace(base, **said)


def _quirk(name: str) -> Callable[[object], bool | str]:
    if isinstance(getattr(Quirks(), name), bool):
        return flag
    if name == "effort":
        return _effort
    return word if getattr(Quirks(), name) else text


def _effort(value: object) -> str:
    name = text(value)
    if name not in _EFFORTS:
        raise Wrong(unknown("way to ask for an effort", name, _EFFORTS - {""}))
    return name
