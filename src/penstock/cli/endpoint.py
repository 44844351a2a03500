"""The endpoint that a command connects to: options, URL and API key."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.cli import UsageError

if TYPE_CHECKING:
    from penstock.client.client import OpenResponsesClient
    from penstock.client.config import ClientConfig
    from penstock.dialects.presets import Preset
    from penstock.models.directory import ModelDirectory
    from penstock.models.learned_limits import EndpointLimits

DEFAULT_URL = "http://127.0.0.1:8080/v1"
"""The default address of a gateway on this machine."""


def add_endpoint_options(parser: argparse.ArgumentParser) -> None:
    endpoint = parser.add_argument_group("endpoint")
    add = endpoint.add_argument
    add("--base-url", metavar="URL", help=f"the base URL (default: {DEFAULT_URL}, the local gateway)")
    add("--preset", metavar="NAME", help="a vendor: sets the base URL and the variable with the key")
    add("--api-key-env", metavar="NAME", help="the environment variable with the API key")
    add(
        "--override",
        metavar="LINE",
        action="append",
        default=[],
        help="facts about a model, e.g. 'gpt-x = window:200k price:1.25/10'; may be repeated",
    )


class EndpointOptions(NamedTuple):
    """The endpoint that the options select."""

    config: ClientConfig
    display_url: str
    """The base URL without its query."""
    preset: str
    key_variable: str
    """The variable with the key; empty if no key is sent."""
    is_default: bool
    overrides: list[Any]

    def limits(self) -> EndpointLimits:
        """Return the limits of this endpoint that were learned from errors."""
        from penstock.models.learned_limits import LearnedLimits, limits_path

        return LearnedLimits(limits_path(os.environ)).at(self.config.base_url)

    def directory(self, client: OpenResponsesClient) -> ModelDirectory:
        from penstock.models.directory import ModelDirectory
        from penstock.net.urls import is_loopback, read_address

        is_local = is_loopback(read_address(self.config.base_url).host)
        return ModelDirectory(
            client,
            overrides=self.overrides,
            fetcher=client if is_local else None,
            preset=self.preset,
            limits=self.limits(),
        )


def read_endpoint(options: argparse.Namespace, *, responses: bool = True) -> EndpointOptions:
    """Return the endpoint; raise `UsageError` for bad options. `responses`: require the Responses API."""
    from penstock.client.config import ClientConfig
    from penstock.dialects.presets import supports_responses
    from penstock.errors import InvalidRequestError
    from penstock.net.urls import read_address

    preset = _preset(options.preset)
    if preset is not None and responses and not supports_responses(preset):
        raise UsageError(
            f"--preset {preset.name}: {preset.title} does not support the Responses API: start the gateway "
            f"with `penstock serve --preset {preset.name}`, and run this command without --preset"
        )
    url = _url(options.base_url, preset)
    variable, key = _key(options.api_key_env, preset)
    try:
        read_address(url)
        config = ClientConfig(
            url, headers=_headers(preset, key), key=(lambda: key) if _is_bearer(preset) else None
        )
    except InvalidRequestError as error:
        advice = ": use --api-key-env NAME instead" if "password" in error.message else ""
        raise UsageError(f"--base-url: {error.message}{advice}") from None
    return EndpointOptions(
        config=config,
        display_url=url.partition("?")[0],  # the query may contain a key
        preset=preset.name if preset else "",
        key_variable=variable,
        is_default=not options.base_url and preset is None,
        overrides=_overrides(options.override),
    )


def _preset(name: str | None) -> Preset | None:
    from penstock.dialects import presets

    if not name:
        return None
    try:
        return presets.preset(name)
    except LookupError as error:
        raise UsageError(f"--preset: {error.args[0]}") from None


def _url(given: str | None, preset: Preset | None) -> str:
    if preset is None:
        return given or DEFAULT_URL
    is_template = "{" in preset.base_url
    if given and not is_template:
        # Never send a vendor's key to another address by mistake.
        raise UsageError("use --base-url or --preset, not both (--api-key-env names the variable with a key)")
    if is_template and not given:
        raise UsageError(f"--preset {preset.name}: add your URL: --base-url {preset.base_url}")
    return given or preset.base_url


def _key(named: str | None, preset: Preset | None) -> tuple[str, str]:
    """Return the name and the value of the variable. A preset without a variable needs no key."""
    variable = named or (preset.key_variable if preset else "")
    if not variable:
        return "", ""
    option = "--api-key-env" if named else f"--preset {preset.name if preset else ''}"
    key = read_variable(variable, option)
    if not key:
        raise UsageError(f"{option}: the variable {variable} is unset or empty; set it to the API key")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"{option}: {variable} is not a valid key: it has a line break or is not ASCII")
    return variable, key


def read_variable(variable: str, option: str) -> str:
    """Return a secret from a variable or its file; raise `UsageError` if that cannot be used."""
    from penstock.errors import ConfigError
    from penstock.secret_variables import secret_variable

    try:
        return secret_variable(variable, os.environ)
    except ConfigError as error:
        raise UsageError(f"{option}: {error}") from None


def read_key(variable: str | None) -> str:
    """Return the key in the variable that `--api-key-env` names; empty without one."""
    return _key(variable, None)[1]


def _is_bearer(preset: Preset | None) -> bool:
    return preset is None or preset.key_header == "bearer"


def _headers(preset: Preset | None, key: str) -> dict[str, str]:
    """Return the headers for a vendor that does not use a bearer token."""
    from penstock.dialects.presets import KEY_HEADERS
    from penstock.dialects.registry import rendered_dialect

    if preset is None or _is_bearer(preset) or not key:
        return {}
    header, value = KEY_HEADERS[preset.key_header]
    return {header: value.format(key=key), **rendered_dialect(preset.dialect).connection.headers}


def _overrides(lines: list[str]) -> list[Any]:
    from penstock.errors import DecodeError
    from penstock.models.overrides import parse_override

    try:
        return [parse_override(line) for line in lines]
    except DecodeError as error:
        raise UsageError(f"--override: {error}") from None
