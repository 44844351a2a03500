"""Configurations: each group of the editor has its own endpoint, key, models and figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.dialects.presets import KEY_HEADERS, PRESETS, Preset, speaks_responses
from penstock.errors import InvalidRequestError
from penstock.models.directory import ModelDirectory
from penstock.net.config import check_key
from penstock.net.urls import is_loopback, read_address
from penstock.provider.editor_turn import Host
from penstock.provider.host.error_messages import ErrorContext
from penstock.provider.host.requests import ConfigureRequest
from penstock.provider.provider import LanguageModelProvider
from penstock.provider.tracker import UsageTracker

_PATIENCE = 10.0
"""Seconds that a server may ask us to wait before a person is asked instead, who sees nothing meanwhile."""


class Group:
    """One configuration at work. Nothing of it is shared with another group, not even at one endpoint."""

    def __init__(self, asked: ConfigureRequest, tracker: UsageTracker) -> None:
        """Raises `OpenResponsesError` for a configuration that cannot work."""
        preset = _preset(asked)
        config = _config(asked, preset)
        address = read_address(config.base_url)
        self.asked = asked
        self.shown = f"{address.scheme}://{address.authority}{address.path}"
        self._client = OpenResponsesClient(config)
        self._users = 0
        directory = ModelDirectory(
            self._client,
            fetcher=self._client if is_loopback(address.host) else None,
            preset=preset.name if preset else "",
        )
        self.provider = LanguageModelProvider(
            self._client, directory, host=_host(asked, self.shown), tracker=tracker
        )

    def error_context(self, model: str = "") -> ErrorContext:
        return ErrorContext(endpoint=self.shown, group=self.asked.group, model=model)

    @contextmanager
    def used(self) -> Iterator[None]:
        """A group that was replaced goes on for those who use it (docs/host.md)."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def is_idle(self) -> bool:
        return self._users == 0

    async def aclose(self) -> None:
        await self._client.aclose()


def _host(asked: ConfigureRequest, endpoint: str) -> Host:
    # A marker is good for one account: another group at the same endpoint may have another. The name of a
    # group says that only while the editor gives it to no other account, so the editor may say better.
    owner = f"account\0{asked.account}" if asked.account else asked.group
    return Host(
        thinking=asked.thinking,
        markers=True,
        usage_parts=True,
        endpoint=f"{endpoint}\0{owner}",
    )


def _preset(asked: ConfigureRequest) -> Preset | None:
    if not asked.preset:
        return None
    preset = PRESETS.get(asked.preset)
    known = ", ".join(name for name, row in PRESETS.items() if speaks_responses(row))
    if preset is None:
        raise _wrong(f"there is no preset {asked.preset!r}: there are {known}", "preset")
    if not speaks_responses(preset):
        refusal = f"{preset.title} does not speak Responses: start `penstock serve --preset {preset.name}`"
        raise _wrong(f"{refusal}, and set the gateway's address as the endpoint", "preset")
    return preset


def _config(asked: ConfigureRequest, preset: Preset | None) -> ClientConfig:
    url = _url(asked, preset)
    if asked.key:
        check_key(asked.key)
    elif preset is not None and preset.key_variable and not asked.headers:
        raise _wrong(f"{preset.title} needs a key: add it to the group", "key")
    header = preset.key_header if preset else "bearer"
    key, headers = asked.key, dict(asked.headers)
    if key and header != "bearer":
        name, value = KEY_HEADERS[header]
        headers = {name: value.format(key=key), **headers}
    return ClientConfig(
        url,
        key=(lambda: key) if key and header == "bearer" else None,
        headers=headers,
        max_retry_wait=_PATIENCE,
    )


def _url(asked: ConfigureRequest, preset: Preset | None) -> str:
    if preset is None:
        if not asked.endpoint:
            raise _wrong("set `endpoint` to the address of the models, or `preset` to a vendor", "endpoint")
        return asked.endpoint
    has_own = "{" in preset.base_url
    if asked.endpoint and not has_own:
        # The vendor's key must not go to an address that is not the vendor's by an oversight.
        raise _wrong("`endpoint` and `preset` name two endpoints: keep one of them", "endpoint")
    if has_own and not asked.endpoint:
        raise _wrong(f"{preset.title} needs your own address as the endpoint: {preset.base_url}", "endpoint")
    return asked.endpoint or preset.base_url


def _wrong(message: str, param: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="invalid_config", param=param)
