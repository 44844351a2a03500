"""Which endpoint a command talks to: the options for it, its address, and where its key is from."""

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

DEFAULT_URL = "http://127.0.0.1:8080/v1"
"""Where the gateway is when it was started on this machine."""


def add_endpoint_options(parser: argparse.ArgumentParser) -> None:
    endpoint = parser.add_argument_group("endpoint")
    add = endpoint.add_argument
    add("--base-url", metavar="URL", help=f"its address (default: {DEFAULT_URL}, the gateway here)")
    add("--preset", metavar="NAME", help="a vendor: its address, and its key's variable")
    add("--api-key-env", metavar="NAME", help="the variable that holds the key")
    add(
        "--override",
        metavar="LINE",
        action="append",
        default=[],
        help="what is so of a model, e.g. 'gpt-x = window:200k price:1.25/10'; may be repeated",
    )


class EndpointOptions(NamedTuple):
    """An endpoint, as the options name it."""

    config: ClientConfig
    place: str
    """The address as it may be shown."""
    preset: str
    key_variable: str
    """The variable that the key is from; empty where no key is sent."""
    is_default: bool
    overrides: list[Any]

    def directory(self, client: OpenResponsesClient) -> ModelDirectory:
        from penstock.models.directory import ModelDirectory
        from penstock.net.urls import is_loopback, read_address

        is_here = is_loopback(read_address(self.config.base_url).host)
        return ModelDirectory(
            client,
            overrides=self.overrides,
            fetcher=client if is_here else None,
            preset=self.preset,
        )


def read_endpoint(options: argparse.Namespace, *, responses: bool = True) -> EndpointOptions:
    """Raises `UsageError` for options that name none. `responses`: the endpoint must speak Responses."""
    from penstock.client.config import ClientConfig
    from penstock.dialects.presets import speaks_responses
    from penstock.errors import InvalidRequestError
    from penstock.net.urls import read_address

    preset = _preset(options.preset)
    if preset is not None and responses and not speaks_responses(preset):
        raise UsageError(
            f"--preset {preset.name}: {preset.title} does not speak Responses: put the gateway in front "
            f"with `penstock serve --preset {preset.name}`, and leave it out here"
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
        place=url.partition("?")[0],  # the query may hold a key
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
    has_own = "{" in preset.base_url
    if given and not has_own:
        # The vendor's key must not go to an address that is not the vendor's by an oversight.
        raise UsageError("--base-url and --preset name two endpoints: choose one (--api-key-env names a key)")
    if has_own and not given:
        raise UsageError(f"--preset {preset.name}: add your address: --base-url {preset.base_url}")
    return given or preset.base_url


def _key(named: str | None, preset: Preset | None) -> tuple[str, str]:
    """The variable and what it holds. A preset without a variable needs no key."""
    variable = named or (preset.key_variable if preset else "")
    if not variable:
        return "", ""
    key = os.environ.get(variable, "").strip()
    whose = "--api-key-env" if named else f"--preset {preset.name if preset else ''}"
    if not key:
        raise UsageError(f"{whose}: the variable {variable} is not set, or empty; it must hold the key")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"{whose}: what {variable} holds cannot be a key (a line break, or not ASCII)")
    return variable, key


def _is_bearer(preset: Preset | None) -> bool:
    return preset is None or preset.key_header == "bearer"


def _headers(preset: Preset | None, key: str) -> dict[str, str]:
    """What a vendor wants that is no bearer token."""
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
