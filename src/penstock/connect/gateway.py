"""The gateway that a client is connected to: its address, its models, and whether it needs a key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.editor.route import own_url
from penstock.errors import AuthenticationError, NetworkError, OpenResponsesError
from penstock.gateway.config.file import find_config
from penstock.gateway.config.options import OptionError, ServeOptions, settings_from
from penstock.gateway.settings import DEMO, Settings
from penstock.models.directory import ModelDirectory
from penstock.models.info import ModelInfo

KEY_VARIABLE = "PENSTOCK_KEY"
"""The variable for a key of the gateway, unless another is named."""


class ConnectedGateway(Struct, frozen=True, kw_only=True):
    """What a client's configuration depends on."""

    base_url: str
    """With `/v1`."""
    model: str
    key_variable: str = ""
    """The variable with the key that the client sends; empty if the gateway needs none."""
    models: tuple[ModelInfo, ...] = ()
    """The models that the gateway lists; empty if it could not be asked."""
    problem: str = ""
    """Why it could not be asked."""

    @property
    def listed(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.models)


def local_settings(folder: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings with which `penstock serve` would start here; raise `ConfigError` and
    `OptionError`."""
    return settings_from(ServeOptions(), find_config(folder, environment), environment)


def url_of_settings(settings: Settings) -> str:
    """Return the base URL at which this machine reaches a gateway with these settings."""
    if not settings.port:
        raise OptionError(
            "the configured port is 0, so the gateway's address is not known: add --base-url URL"
        )
    url = own_url(settings.host, settings.port)
    return f"{url.replace('http:', 'https:', 1) if settings.tls_cert else url}/v1"


def model_of_settings(settings: Settings) -> str:
    """Return the model that a gateway with these settings lists first, as far as they say."""
    return settings.default_model or next(iter(settings.models), DEMO)


async def ask_gateway(
    base_url: str, *, model: str = "", fallback: str = DEMO, key_variable: str = "", key: str = ""
) -> ConnectedGateway:
    """Ask a gateway for its models. If it cannot be asked, say why in `problem`, and use `fallback`.

    A gateway that refuses a request without a key gets the usual variable.
    """
    models: tuple[ModelInfo, ...] = ()
    problem = ""
    try:
        async with OpenResponsesClient(ClientConfig(base_url, key=lambda: key, retries=0)) as client:
            models = tuple(await ModelDirectory(client).list())
    except AuthenticationError:
        if key:
            problem = f"the gateway at {base_url} rejected the key in {key_variable}: check its value"
        else:
            key_variable = key_variable or KEY_VARIABLE
            problem = (
                f"the gateway at {base_url} needs a key: put one into {key_variable}, and run this command "
                f"again with --api-key-env {key_variable}. `penstock keys create NAME` creates one"
            )
    except OpenResponsesError as error:
        if isinstance(error, NetworkError) and error.phase == "connect":
            problem = f"no gateway is running at {base_url}: start it with `penstock serve`"
        else:
            problem = f"the gateway at {base_url} could not be asked for its models: {error.message}"
    first = models[0].id if models else fallback
    return ConnectedGateway(
        base_url=base_url,
        model=model or first,
        key_variable=key_variable,
        models=models,
        problem=problem,
    )
