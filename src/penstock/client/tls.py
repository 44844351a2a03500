"""Whom to trust, and who we are."""

from __future__ import annotations

import ssl

from penstock.client.config import ClientConfig
from penstock.errors import InvalidRequestError


def tls_context(config: ClientConfig) -> ssl.SSLContext | bool:
    """aiohttp's own context, unless there is something of ours to put in."""
    if not config.ca_file and not config.client_cert:
        return True
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
    except OSError as error:
        raise _wrong_file("ca_file", error) from None
    if config.client_cert:
        try:
            context.load_cert_chain(config.client_cert, config.client_key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _wrong_file("client_cert", error) from None
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; OpenSSL would ask the terminal for its password")


def _wrong_file(name: str, error: Exception) -> InvalidRequestError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidRequestError(f"{name} cannot be used: {why}", code="invalid_config", param=name)
