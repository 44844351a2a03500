"""Whom to trust, who we are, and whether a server speaks TLS at all."""

from __future__ import annotations

import asyncio
import ssl

from penstock.errors import InvalidRequestError


def tls_context(
    ca_file: str | None, client_cert: str | None, client_key: str | None
) -> ssl.SSLContext | bool:
    """aiohttp's own context, unless there is something of ours to put in."""
    if not ca_file and not client_cert:
        return True
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise _wrong_file("ca_file", error) from None
    if client_cert:
        try:
            context.load_cert_chain(client_cert, client_key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _wrong_file("client_cert", error) from None
    return context


_HANDSHAKE = 1.0
"""Seconds. A server that speaks TLS answers a greeting at once; one that does not may wait for more of it."""


async def speaks_tls(host: str, port: int) -> bool:
    """Does this server speak TLS? Only the handshake is tried; nothing of a request is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_HANDSHAKE):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # it refuses, in the words of TLS
    except (OSError, ValueError):
        return False
    writer.transport.abort()
    return True


def _no_password() -> str:
    raise ValueError("the key is encrypted; OpenSSL would ask the terminal for its password")


def _wrong_file(name: str, error: Exception) -> InvalidRequestError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidRequestError(f"{name} cannot be used: {why}", code="invalid_config", param=name)
