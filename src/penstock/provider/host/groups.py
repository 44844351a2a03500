"""The editor's groups: each has its own endpoint, key, models and usage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.dialects.presets import KEY_HEADERS, PRESETS, Preset, supports_responses
from penstock.errors import InvalidRequestError
from penstock.models.directory import ModelDirectory
from penstock.models.learned_limits import LearnedLimits
from penstock.net.config import check_key
from penstock.net.urls import is_loopback, read_address
from penstock.provider.editor_turn import Host, HostSettings
from penstock.provider.host.error_messages import ErrorContext, error_sentence
from penstock.provider.host.requests import ConfigureRequest
from penstock.provider.provider import LanguageModelProvider
from penstock.provider.tracker import UsageTracker
from penstock.suggestions import unknown

_MAX_RETRY_WAIT = 10.0
"""The longest `Retry-After` to wait for, in seconds: the user sees nothing meanwhile."""


class Group:
    """An active configuration. Groups share nothing, even if they use the same endpoint."""

    def __init__(self, request: ConfigureRequest, tracker: UsageTracker, limits: LearnedLimits) -> None:
        """Raise `OpenResponsesError` if the configuration is not valid."""
        preset = _preset(request)
        config = _config(request, preset)
        address = read_address(config.base_url)
        self.request = request
        self.display_url = f"{address.scheme}://{address.authority}{address.path}"
        self.limits = limits.at(config.base_url)
        self._client = OpenResponsesClient(config)
        self._users = 0
        directory = ModelDirectory(
            self._client,
            fetcher=self._client if is_loopback(address.host) else None,
            preset=preset.name if preset else "",
            limits=self.limits,
        )
        self._host = _host(request, self.display_url)
        self.provider = LanguageModelProvider(self._client, directory, host=self._host, tracker=tracker)

    def error_context(self, model: str = "", settings: HostSettings | None = None) -> ErrorContext:
        """Return the context for errors; `settings` are those of a turn, for its own errors."""
        is_text = settings is not None and settings.applied_to(self._host).errors_as_text
        return ErrorContext(self.display_url, self.request.group, model, is_text)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Mark the group as in use: a replaced group is closed when it is idle (docs/host.md)."""
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


def _host(request: ConfigureRequest, endpoint: str) -> Host:
    # A marker is valid for one account, and another group at the same endpoint may use another account. The
    # group's name identifies the account only as long as it is not reused, so the editor may send `account`.
    owner = f"account\0{request.account}" if request.account else request.group
    context = ErrorContext(endpoint=endpoint, group=request.group)
    host = Host(
        markers=True,
        usage_parts=True,
        endpoint=f"{endpoint}\0{owner}",
        describe_error=lambda error, model: error_sentence(error, replace(context, model=model)),
    )
    return request.settings.applied_to(host)


def _preset(request: ConfigureRequest) -> Preset | None:
    if not request.preset:
        return None
    preset = PRESETS.get(request.preset)
    if preset is None:
        known = [name for name, row in PRESETS.items() if supports_responses(row)]
        raise _invalid(unknown("preset", request.preset, known), "preset")
    if not supports_responses(preset):
        gateway = f"start `penstock serve --preset {preset.name}`, and set `endpoint` to the gateway's URL"
        raise _invalid(f"{preset.title} does not support the Responses API: {gateway}", "preset")
    return preset


def _config(request: ConfigureRequest, preset: Preset | None) -> ClientConfig:
    url = _url(request, preset)
    if request.key:
        check_key(request.key)
    elif preset is not None and preset.key_variable and not request.headers:
        raise _invalid(f"{preset.title} needs a key: add it to the group", "key")
    header = preset.key_header if preset else "bearer"
    key, headers = request.key, dict(request.headers)
    if key and header != "bearer":
        name, value = KEY_HEADERS[header]
        headers = {name: value.format(key=key), **headers}
    return ClientConfig(
        url,
        key=(lambda: key) if key and header == "bearer" else None,
        headers=headers,
        max_retry_wait=_MAX_RETRY_WAIT,
    )


def _url(request: ConfigureRequest, preset: Preset | None) -> str:
    if preset is None:
        if not request.endpoint:
            raise _invalid("set `endpoint` to the URL of the endpoint, or `preset` to a vendor", "endpoint")
        return request.endpoint
    needs_url = "{" in preset.base_url
    if request.endpoint and not needs_url:
        # Do not send a vendor's key to another server by mistake.
        raise _invalid("`endpoint` and `preset` conflict: remove one of them", "endpoint")
    if needs_url and not request.endpoint:
        raise _invalid(f"{preset.title} needs your own URL as the endpoint: {preset.base_url}", "endpoint")
    return request.endpoint or preset.base_url


def _invalid(message: str, param: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="invalid_config", param=param)
