"""Read `[targets.NAME]`: the upstreams of a configuration."""

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
    variable,
    variable_names,
    variables_in,
)
from penstock.gateway.config.values import (
    ABOVE,
    ConfigTable,
    InvalidValue,
    ValueReader,
    flag,
    nonempty,
    one_of,
    reads,
    seconds_or_off,
    text,
)
from penstock.gateway.settings import DEMO
from penstock.net.config import check_headers
from penstock.net.tls import client_tls_context
from penstock.net.urls import is_loopback, read_address, read_proxy
from penstock.secret_variables import is_set
from penstock.suggestions import unknown
from penstock.upstream.target import UpstreamTarget

TARGET = (
    *("preset", "base_url", "dialect", "key_header", "keys", "spread_keys", "pass_key", "headers", "quirks"),
    *("connect_timeout", "first_byte_timeout", "idle_timeout"),
    *("ca_file", "client_cert", "client_key", "proxy"),
)
"""The settings of a target."""

_ELSEWHERE = {
    **ABOVE,
    # Names from other programs.
    "api_key": "put the name of its environment variable into keys",
    "key": "put the name of its environment variable into keys",
    "api_key_env": "put the name of the variable into keys",
    "url": "did you mean base_url?",
    "type": "did you mean dialect?",
    "provider": "did you mean preset?",
    "timeout": "use connect_timeout, first_byte_timeout or idle_timeout",
    "model": "it belongs under [models.NAME]",
}
EFFORT_FORMATS = {"", *CHAT_EFFORTS, *GEMINI_EFFORTS}
TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_Environment = Mapping[str, str]


def default_key_header(dialect: str, preset: Preset | None) -> str:
    """Return how a key is sent by default: as the preset requires, or else the dialect."""
    return preset.key_header if preset else rendered_dialect(dialect).connection.key_header


def read_targets(tables: ConfigTable, file: str, environment: _Environment) -> tuple[UpstreamTarget, ...]:
    """Return all targets that can be used; record the errors of the others."""
    found = [_read_target(name, table, file, environment) for name, table in tables.tables()]
    return tuple(target for target in found if target is not None)


def _read_target(
    name: str, table: ConfigTable, file: str, environment: _Environment
) -> UpstreamTarget | None:
    if name == DEMO:
        table.report(f"{DEMO} is the built-in model: use another name")
    elif not TARGET_NAME.fullmatch(name):
        table.report("a target's name may contain only letters, digits, dots, dashes and underscores")
    table.only(TARGET, _ELSEWHERE)
    named = table.read("preset", one_of("preset", PRESETS), "")
    preset = PRESETS.get(named)
    dialect = table.read("dialect", _dialect, preset.dialect if preset else "chat")
    base_url = _base_url(table, preset)
    is_passing = table.read("pass_key", flag, False)
    keys = _keys(table, preset, base_url, is_passing, environment)
    is_named = preset is not None and "keys" not in table
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
            "key_header", one_of("key_header", KEY_HEADERS), default_key_header(dialect, preset)
        ),
        keys=tuple(keys),
        key_names=tuple(keys.values()),
        spread_keys=table.read("spread_keys", flag, _DEFAULT.spread_keys),
        missing_key=_missing_key(name, preset if is_named else None),
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
    name = nonempty(value)
    if name in DIALECTS and name not in RENDERED:
        advice = f"use {_list(RENDERED)}"
        raise InvalidValue(f"Penstock can read answers in {name}, but cannot send requests in it: {advice}")
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
            table.report('needs a base_url, such as "http://127.0.0.1:8000/v1", or a preset')
        return ""
    if "{" in preset.base_url:
        table.report(f'needs your own address: base_url = "{preset.base_url}", with the braces filled in')
        return ""
    return preset.base_url


def _address(value: object) -> str:
    url = nonempty(value)
    if "{" in url.partition("?")[0]:
        raise InvalidValue("has a placeholder in braces: replace it with your own name")
    try:
        read_address(url)
    except InvalidRequestError as error:
        raise InvalidValue(error.message) from None
    return url


def _keys(
    table: ConfigTable, preset: Preset | None, base_url: str, is_passing: bool, environment: _Environment
) -> dict[str, str]:
    """Return the keys and the names of their variables."""
    if "keys" not in table:
        return _preset_key(table, preset, base_url, is_passing, environment)
    found: dict[str, str] = {}
    for index, name in table.texts("keys").items():
        try:
            found.setdefault(variable(name, environment), name)
        except InvalidValue as error:
            # A target that sends the clients' own keys does not need one of its own.
            if not (is_passing and _is_unset(name, environment)):
                table.report(str(error), "keys", index)
    return found


def _missing_key(name: str, preset: Preset | None) -> str:
    """Return what to do if a key is required and there is none."""
    if preset is not None and preset.key_variable:
        return f"set {preset.key_variable}"
    return f"add the name of the key's variable to targets.{name}.keys"


def _is_unset(name: str, environment: _Environment) -> bool:
    return not looks_secret(name) and not is_set(name, environment)


def _preset_key(
    table: ConfigTable, preset: Preset | None, base_url: str, is_passing: bool, environment: _Environment
) -> dict[str, str]:
    """Return the vendor's key if it is set. It must not be sent to another address by accident."""
    if preset is None or not is_set(preset.key_variable, environment):
        return {}
    if base_url and not _is_vendor_or_local(base_url, preset):
        if not is_passing:
            table.report(
                f"is not {preset.title}'s own address: to send its key there anyway, set "
                f'keys = ["{preset.key_variable}"]; to send no key, set keys = []',
                "base_url",
            )
        return {}
    try:
        return {variable(preset.key_variable, environment): preset.key_variable}
    except InvalidValue as error:
        table.report(str(error))
        return {}


def _is_vendor_or_local(base_url: str, preset: Preset) -> bool:
    """Return whether this is the vendor's address, or one on this machine."""
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
    """Return the values of all variables in the headers and the proxy, which are sent with requests."""
    headers = table.values.get("headers")
    written = [*(headers.values() if isinstance(headers, dict) else ()), table.values.get("proxy")]
    named = (variables_in(each, environment) for each in written if isinstance(each, str))
    return tuple(dict.fromkeys(value for values in named for value in values))


def _header(name: str, environment: _Environment) -> Callable[[object], str]:
    def read(value: object) -> str:
        written = text(value)
        if name.lower() in SECRET_HEADERS and written and not variable_names(written):
            raise InvalidValue(
                "is a secret and does not belong in a file: put it into an environment variable and write "
                '"$NAME" here'
            )
        found = expanded(written, environment)
        try:
            check_headers({name: found})
        except InvalidRequestError:
            raise InvalidValue(
                "is not a valid header: use a name without spaces and a value of one line"
            ) from None
        return found

    return read


def _proxy(environment: _Environment) -> Callable[[object], str]:
    def read(value: object) -> str:
        url = expanded(text(value).strip(), environment)
        if url:
            try:
                read_proxy(url)
            except InvalidRequestError as error:
                raise InvalidValue(error.message) from None
        return url

    return read


def _tls_files(table: ConfigTable, file: str) -> tuple[str | None, str | None, str | None]:
    """Return the paths of the TLS files; load them to report errors here and not at the first request."""
    names = ("ca_file", "client_cert", "client_key")
    authorities, certificate, key = (table.read(name, file_relative_to(file), None) for name in names)
    are_found = [bool(each) for each in (authorities, certificate, key)] == [name in table for name in names]
    if "client_key" in table and "client_cert" not in table:
        table.report("also needs client_cert", "client_key")
    elif are_found:
        try:
            client_tls_context(authorities, certificate, key)
        except InvalidRequestError as error:
            table.report(error.message.partition(" ")[2], error.param or "ca_file")
    return authorities, certificate, key


def file_relative_to(file: str) -> Callable[[object], str]:
    """Return a reader of file paths; a relative path starts at the configuration's folder."""

    def read(value: object) -> str:
        path = os.path.join(os.path.dirname(file), os.path.expanduser(nonempty(value)))
        if not os.path.isfile(path):
            raise InvalidValue("there is no such file; a relative path starts at the configuration's folder")
        return path

    return read


def _quirks(table: ConfigTable, preset: Preset | None) -> Quirks:
    """Return the preset's quirks, overridden by those in the file."""
    base = preset.quirks if preset else Quirks()
    quirks = table.table("quirks")
    quirks.only(Quirks.__struct_fields__)
    overrides = {
        name: quirks.read(name, quirk_reader(name), getattr(base, name))
        for name in Quirks.__struct_fields__
        if name in quirks
    }
    return replace(base, **overrides)


def quirk_reader(name: str) -> ValueReader[bool] | ValueReader[str]:
    if isinstance(getattr(Quirks(), name), bool):
        return flag
    if name == "effort":
        return _effort
    return nonempty if getattr(Quirks(), name) else text


@reads(enum=sorted(EFFORT_FORMATS))
def _effort(value: object) -> str:
    name = text(value)
    if name not in EFFORT_FORMATS:
        raise InvalidValue(unknown("effort format", name, EFFORT_FORMATS - {""}))
    return name
