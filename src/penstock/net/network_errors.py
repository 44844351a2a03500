"""No answer, or half of one: what aiohttp and the system raise, as an exception of `penstock.errors`.

Nothing is chained: aiohttp's exceptions hold the request with its headers, and show them.
"""

from __future__ import annotations

import os
import re
import socket
import ssl

import aiohttp

from penstock.errors import NetworkError, OpenResponsesError, ProtocolError

_TLS_ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate: set client_cert",
    "HANDSHAKE_FAILURE": "it refuses the TLS handshake; it may want a client certificate (client_cert)",
    "BAD_CERTIFICATE": "it does not accept our client certificate",
    "UNKNOWN_CA": "it does not know the authority of our client certificate",
    "CERTIFICATE_UNKNOWN": "it does not accept our client certificate",
}
"""What a server means that ends TLS, by a word of OpenSSL's. None of it passes by waiting."""
WANTS_TLS = "the server at {place} speaks TLS: use https:// in its address instead of http://"
NO_TLS = "the server at {place} does not speak TLS: use http:// in its address instead of https://"

_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's words for bytes that are no TLS."""
_WANTS_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS port"  # nginx
    rb"|sent an HTTP request to an HTTPS server"  # Go
    rb"|speaking plain HTTP to an SSL-enabled server"  # Apache
)
_PLAIN_CAUSES = (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError, ConnectionResetError)
"""How a server that speaks TLS answers plain HTTP: it closes, or sends bytes of TLS."""


def no_connection(error: Exception, place: str, proxy: str, seconds: float | None) -> OpenResponsesError:
    """A failure before the request could be sent."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        message = f"the proxy {proxy} answered {error.status} {error.message}".rstrip()
        return NetworkError(message, code="proxy_error", status=error.status, phase="connect")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        place = f"the proxy {proxy}"
    if (refused := _refused_by_tls(error, place, "connect")) is not None:
        return refused
    if isinstance(error, TimeoutError):
        within = f" within {seconds:g} seconds" if seconds else ""
        return NetworkError(f"no connection to {place}{within}", phase="connect")
    return NetworkError(f"no connection to {place}: {_reason(error)}", phase="connect")


def silence(place: str, phase: str, seconds: float | None, request_id: str | None = None) -> NetworkError:
    """A time that ran out: `first_byte` or `idle`."""
    silent = "sent nothing for" if phase == "first_byte" else "began to answer and was silent for"
    return NetworkError(f"{place} {silent} {seconds:g} seconds", phase=phase, request_id=request_id)


def cut(error: Exception, place: str, request_id: str | None = None) -> OpenResponsesError:
    """A connection that broke after the request was sent."""
    if isinstance(error, aiohttp.ClientResponseError):
        message = f"what {place} answered is no HTTP: check the scheme and the port of its address"
        return ProtocolError(message, code="invalid_http", request_id=request_id)
    if (refused := _refused_by_tls(error, place, "cut")) is not None:
        return refused
    message = f"the connection to {place} broke: {_reason(error)}"
    return NetworkError(message, phase="cut", request_id=request_id)


def may_want_tls(error: Exception) -> bool:
    """Could this be what a server that speaks TLS does with a request in plain HTTP?"""
    return isinstance(error, _PLAIN_CAUSES)


def says_it_wants_tls(body: bytes) -> bool:
    return _WANTS_TLS.search(body) is not None


def wants_tls(place: str) -> NetworkError:
    """Plain HTTP was sent to a server that speaks TLS."""
    return NetworkError(WANTS_TLS.format(place=place), code="tls_error", phase="cut")


def is_no_tls(error: ssl.SSLError) -> bool:
    """Did the server answer the TLS handshake with something else?"""
    return any(word in (error.reason or "") for word in _NO_TLS)


def _refused_by_tls(error: Exception, place: str, phase: str) -> NetworkError | None:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"the certificate of {place} is not trusted: {cause.verify_message}. Is ca_file right?"
            return NetworkError(why, code="certificate_error", phase=phase)
        if isinstance(cause, ssl.SSLError):
            if is_no_tls(cause):
                return NetworkError(NO_TLS.format(place=place), code="tls_error", phase=phase)
            for word, message in _TLS_ALERTS.items():
                if word in (cause.reason or ""):
                    return NetworkError(f"{place}: {message}", code="tls_error", phase=phase)
    return None


def _causes(error: Exception) -> list[BaseException | None]:
    """What the system raised, inside of what aiohttp made of it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return [error.certificate_error]
    if isinstance(error, aiohttp.ClientConnectorError):
        return [error.os_error]
    return [error.__cause__, error]


def _reason(error: Exception) -> str:
    cause = _causes(error)[-1]
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused. Is the server running, and is the port right?"
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(cause, socket.gaierror):
        return "the name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(cause, ConnectionResetError):
        return "it was closed during the TLS handshake. If the server does not speak TLS, use http://"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it was closed without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "it ended in the middle of the body"
    for each in _causes(error):
        if isinstance(each, ssl.SSLError) and each.reason:
            return each.reason
        if isinstance(each, OSError) and each.errno:
            return os.strerror(each.errno)  # its own text may hold the URL, with the query
    return type(error).__name__
