"""Converts failures of connections to exceptions of `penstock.errors`.

Exceptions are not chained: the text of a system error may contain the URL, with a key in its query.
"""

from __future__ import annotations

import os
import re
import socket
import ssl

from penstock.errors import NetworkError, OpenResponsesError, ProtocolError
from penstock.extras import Extra

_TLS_ALERTS = {
    "CERTIFICATE_REQUIRED": "the server requires a client certificate; set client_cert",
    "HANDSHAKE_FAILURE": "the server refused the TLS handshake; it may require client_cert",
    "BAD_CERTIFICATE": "the server rejected the client certificate; check client_cert",
    "UNKNOWN_CA": "the server does not trust the issuer of the client certificate; check client_cert",
    "CERTIFICATE_UNKNOWN": "the server rejected the client certificate; check client_cert",
}
"""Messages for TLS alerts of a server, by OpenSSL's name. None of these failures is transient."""
TLS_REQUIRED = "the server at {place} requires TLS: use https:// in its address instead of http://"
TLS_NOT_SUPPORTED = (
    "the server at {place} does not support TLS: use http:// in its address instead of https://"
)
TLS_INCOMPLETE = (
    "the server at {place} did not complete a TLS handshake: check the scheme, the host and the port of its "
    "address"
)
"""For hosts that are not private. Nobody should send a key in plain text because a stranger in between has
answered instead of the server."""

_NOT_TLS_REASONS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""Parts of OpenSSL's names for bytes that are not TLS."""
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""The beginnings of TLS alerts and handshakes. Servers send an alert if they get plain HTTP."""
_TLS_REQUIRED_PAGE = re.compile(
    rb"plain HTTP request was sent to HTTPS port"  # nginx
    rb"|sent an HTTP request to an HTTPS server"  # Go
    rb"|speaking plain HTTP to an SSL-enabled server"  # Apache
    rb"|combination of host and port requires TLS"  # Tomcat, Windows
)


class ConnectionFault(Exception):  # noqa: N818 - callers get `penstock.errors` instead
    """A failure of a connection that the system does not report as an `OSError`."""


class InvalidHttp(ConnectionFault):
    """The server sent something other than HTTP/1: this was the beginning, if it is known."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self.is_tls = data.startswith(_TLS_RECORDS)


class Unanswered(ConnectionFault):
    """The server closed the connection before a response."""


class Truncated(ConnectionFault):
    """The connection ended in the middle of a body, or the body's framing is invalid."""


class UndecodableBody(ConnectionFault):
    """The body is not valid in its content encoding, or the library that decodes it is missing."""

    def __init__(self, encoding: str, missing: Extra | None = None) -> None:
        super().__init__(encoding)
        self.encoding, self.missing = encoding, missing


class TimedOut(ConnectionFault):
    """The server sent nothing for too long."""

    def __init__(self, phase: str, seconds: float) -> None:
        super().__init__(phase)
        self.phase, self.seconds = phase, seconds


class ProxyUnreachable(ConnectionFault):
    """The connection to the proxy could not be established."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


class ProxyRefusal(ConnectionFault):
    """The proxy did not open a tunnel."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status)
        self.status, self.message = status, message


_PLAIN_CAUSES = (Unanswered, InvalidHttp, ConnectionError)
"""How a server that requires TLS reacts to plain HTTP: it closes the connection, or sends TLS bytes."""

_CLOSED_IN_HANDSHAKE = (ConnectionResetError, ConnectionAbortedError, ssl.SSLEOFError)


def connection_failed(
    error: Exception,
    server: str,
    proxy: str,
    seconds: float | None,
    *,
    in_handshake: bool = False,
    is_private: bool = False,
) -> OpenResponsesError:
    """Return the error for a connection that could not be established. `in_handshake` means that only TLS was
    missing."""
    if isinstance(error, ProxyRefusal):
        message = f"the proxy {proxy} returned {error.status} {error.message}".rstrip()
        return NetworkError(message, code="proxy_error", status=error.status, phase="connect")
    if isinstance(error, ProxyUnreachable):
        server, error, is_private = f"the proxy {proxy}", error.reason, False
    if (tls_error := _tls_error(error, server, "connect", is_private=is_private)) is not None:
        return tls_error
    if is_timeout(error):
        within = f" within {seconds:g} seconds (connect_timeout)" if seconds else ""
        if in_handshake:
            message = f"{server} did not complete the TLS handshake{within}: check its address"
        else:
            message = f"could not connect to {server}{within}"
        return NetworkError(message, phase="connect")
    if isinstance(error, _CLOSED_IN_HANDSHAKE):
        advice = "if the server does not support TLS, use http://" if is_private else "check the address"
        reason = f"the connection was closed during the TLS handshake; {advice}"
    else:
        reason = _reason(error)
    return NetworkError(f"could not connect to {server}: {reason}", phase="connect")


def timed_out(server: str, phase: str, seconds: float | None, request_id: str | None = None) -> NetworkError:
    """Return the error for a timeout: `first_byte` or `idle`."""
    message = "sent nothing for" if phase == "first_byte" else "stopped sending: nothing arrived for"
    message = f"{server} {message} {seconds:g} seconds ({phase}_timeout)"
    return NetworkError(message, phase=phase, request_id=request_id)


def disconnected(error: Exception, server: str, request_id: str | None = None) -> OpenResponsesError:
    """Return the error for a connection that broke or timed out after the request was sent."""
    if isinstance(error, TimedOut):
        return timed_out(server, error.phase, error.seconds, request_id)
    if isinstance(error, InvalidHttp):
        message = f"{server} did not return valid HTTP: check the scheme and the port of its address"
        return ProtocolError(message, code="invalid_http", request_id=request_id)
    if (tls_error := _tls_error(error, server, "cut")) is not None:
        return tls_error
    message = f"the connection to {server} broke: {_reason(error)}"
    return NetworkError(message, phase="cut", request_id=request_id)


def is_timeout(error: Exception) -> bool:
    """Return whether one of our own timeouts has passed, and not one of the system."""
    return isinstance(error, TimedOut) or (isinstance(error, TimeoutError) and error.errno is None)


def may_require_tls(error: Exception) -> bool:
    """Return whether a server that requires TLS may react to plain HTTP like this. Some servers wait for more
    of a handshake."""
    return isinstance(error, _PLAIN_CAUSES) or (isinstance(error, TimedOut) and error.phase == "first_byte")


def may_lack_tls(error: Exception) -> bool:
    """Return whether a server without TLS may react to a handshake like this: it closes the connection, or
    waits for the rest of a request."""
    return is_timeout(error) or isinstance(error, _CLOSED_IN_HANDSHAKE)


def is_tls_record(error: Exception) -> bool:
    """Return whether the server answered plain HTTP with TLS."""
    return isinstance(error, InvalidHttp) and error.is_tls


def body_asks_for_tls(body: bytes) -> bool:
    """Return whether a body is the page that servers return for plain HTTP on a TLS port."""
    return _TLS_REQUIRED_PAGE.search(body) is not None


def tls_required(server: str) -> NetworkError:
    """Return the error for plain HTTP to a server that requires TLS."""
    return NetworkError(TLS_REQUIRED.format(place=server), code="tls_error", phase="cut")


def tls_not_supported(server: str) -> NetworkError:
    """Return the error for TLS to a server that accepts plain HTTP only."""
    return NetworkError(TLS_NOT_SUPPORTED.format(place=server), code="tls_error", phase="connect")


def not_tls_message(server: str, *, is_private: bool) -> str:
    """Return the message for a server that answered the TLS handshake with something else."""
    return (TLS_NOT_SUPPORTED if is_private else TLS_INCOMPLETE).format(place=server)


def scheme_in(message: str) -> str:
    """Return the scheme that a server expects, if a message says so; else ""."""
    schemes = {"https": TLS_REQUIRED, "http": TLS_NOT_SUPPORTED}
    return next((name for name, text in schemes.items() if text.partition("}")[2] in message), "")


def is_not_tls(error: ssl.SSLError) -> bool:
    """Return whether the server answered the TLS handshake with something else."""
    return any(name in _openssl_reason(error) for name in _NOT_TLS_REASONS)


def _openssl_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's name for the error, or "". An error that Python code raised has no such attribute."""
    return getattr(error, "reason", None) or ""


def _tls_error(error: Exception, server: str, phase: str, *, is_private: bool = False) -> NetworkError | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {server} is not trusted: {error.verify_message}; check ca_file"
        return NetworkError(message, code="certificate_error", phase=phase)
    if isinstance(error, ssl.SSLError):
        if is_not_tls(error):
            message = not_tls_message(server, is_private=is_private)
            return NetworkError(message, code="tls_error", phase=phase)
        for name, message in _TLS_ALERTS.items():
            if name in _openssl_reason(error):
                return NetworkError(f"{server}: {message}", code="tls_error", phase=phase)
    return None


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "connection refused. Is the server running, and is the port right?"),
    (socket.gaierror, "the host name cannot be resolved; check the address"),
    (UnicodeError, "the host name cannot be resolved; check the address"),
    (Unanswered, "the server closed it without a response"),
    (InvalidHttp, "the answer is not HTTP; check the scheme and the port"),
    (Truncated, "it ended in the middle of the body"),
)


def _reason(error: Exception) -> str:
    if isinstance(error, UndecodableBody) and error.missing:
        return f"the body is compressed ({error.encoding}); to read it, run {error.missing.command}"
    if isinstance(error, UndecodableBody):
        return f"the body is not valid {error.encoding}, although that is its content encoding"
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    if isinstance(error, ssl.SSLError) and (openssl_reason := _openssl_reason(error)):
        return openssl_reason
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)  # its own text may contain the address
    return type(error).__name__
