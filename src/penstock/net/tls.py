"""TLS: what a client trusts and shows, whether a server supports TLS at all, and the certificate of our own
server."""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import cache

from penstock.errors import InvalidRequestError, PenstockError

_PROTOCOLS = ["http/1.1"]


class InvalidCertificate(PenstockError):  # noqa: N818 - named after what is wrong
    """The certificate or the private key of a server cannot be used."""


# -- clients


@cache
def default_tls_context() -> ssl.SSLContext:
    """Return the context that trusts the authorities of the system. Loading them takes time."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(_PROTOCOLS)
    return context


def client_tls_context(
    ca_file: str | None, client_cert: str | None, client_key: str | None
) -> ssl.SSLContext | None:
    """Return a context for a client, or None for the default if there are no files to load."""
    if not ca_file and not client_cert:
        return None
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise _invalid_file("ca_file", error) from None
    if client_cert:
        try:
            context.load_cert_chain(client_cert, client_key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _invalid_file("client_cert", error) from None
    context.set_alpn_protocols(_PROTOCOLS)
    return context


PROBE = 2.0
"""Seconds. A server with TLS answers a handshake at once; a server without it may wait for more data."""


_OLD_TLS = ("UNSUPPORTED_PROTOCOL", "DH_KEY_TOO_SMALL", "NO_PROTOCOLS_AVAILABLE")
"""OpenSSL's names for servers whose TLS is too old."""


async def supports_tls(host: str, port: int, seconds: float = PROBE) -> bool:
    """Return whether a server supports TLS. This tries only the handshake, and sends no request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as error:
        reason = error.reason or ""
        return "ALERT" in reason or reason in _OLD_TLS  # it refuses the handshake, but with TLS
    except (OSError, ValueError):
        return False
    writer.transport.abort()
    return True


_PLAIN_ANSWER = re.compile(rb"HTTP/1\.[01] (?!400)")
"""A server with TLS may answer plain HTTP as well: with a 400."""


async def supports_plain_http(host: str, port: int, seconds: float = PROBE) -> bool:
    """Return whether a server answers plain HTTP. This asks for its root, without a key."""
    writer = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"HEAD / HTTP/1.0\r\n\r\n")
            answer = await reader.readexactly(len("HTTP/1.1 200"))
    except (OSError, ValueError, EOFError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return _PLAIN_ANSWER.match(answer) is not None


def _invalid_file(name: str, error: Exception) -> InvalidRequestError:
    return InvalidRequestError(f"{name} cannot be used: {_reason(error)}", code="invalid_config", param=name)


# -- servers


def server_tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a context for a certificate chain and its private key, or raise `InvalidCertificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the files again, for new connections; raise `InvalidCertificate` if that fails."""
    try:
        # First into another context: a failed call replaces the certificate before it refuses the key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise InvalidCertificate(f"cannot be used with its key: {_reason(error)}") from None


# -- both


def _no_password() -> str:
    raise ValueError("the private key is encrypted: use a key without a password")


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
