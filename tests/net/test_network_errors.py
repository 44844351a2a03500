"""Failures of connections as exceptions of Penstock."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from penstock.errors import NetworkError, ProtocolError
from penstock.net.network_errors import (
    InvalidHttp,
    ProxyRefusal,
    ProxyUnreachable,
    TimedOut,
    Truncated,
    Unanswered,
    UndecodableBody,
    body_asks_for_tls,
    connection_failed,
    disconnected,
    is_not_tls,
    may_require_tls,
    timed_out,
    tls_required,
)

SERVER = "host.example:8080"


def tls_alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL] {reason}")
    error.reason = reason
    return error


CONNECTING: list[tuple[Exception, str, str]] = [
    (ConnectionRefusedError(111, "refused"), "network_error", "connection refused. Is the server"),
    (socket.gaierror(-2, "unknown"), "network_error", "the host name cannot be resolved"),
    (ConnectionResetError(), "network_error", "closed during the TLS handshake"),
    (OSError(errno.ENETUNREACH, ""), "network_error", "Network is unreachable"),
    (ssl.SSLEOFError(8, "EOF"), "network_error", "closed during the TLS handshake"),
    (tls_alert("WRONG_VERSION_NUMBER"), "tls_error", "did not complete a TLS handshake: check the scheme"),
    (tls_alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "tls_error", "set client_cert"),
    (tls_alert("SSLV3_ALERT_HANDSHAKE_FAILURE"), "tls_error", "refused the TLS handshake"),
    (tls_alert("TLSV1_ALERT_UNKNOWN_CA"), "tls_error", "does not trust the issuer"),
    (tls_alert("SOMETHING_NEW"), "network_error", "SOMETHING_NEW"),
    (UnicodeError("label too long"), "network_error", "the host name cannot be resolved"),
    (OSError(errno.ETIMEDOUT, ""), "network_error", "Connection timed out"),
    (TimeoutError(), "network_error", f"could not connect to {SERVER} within 1.5 seconds"),
]


@pytest.mark.parametrize(("error", "code", "message"), CONNECTING, ids=lambda value: repr(value)[:50])
def test_a_failed_connection_has_its_phase_and_a_reason(error: Exception, code: str, message: str) -> None:
    found = connection_failed(error, SERVER, "", 1.5)
    assert isinstance(found, NetworkError)
    assert (found.code, found.phase, found.status) == (code, "connect", None)
    assert SERVER in found.message
    assert message in found.message


@pytest.mark.parametrize(
    "error", [tls_alert("WRONG_VERSION_NUMBER"), ConnectionResetError(), ssl.SSLEOFError()], ids=repr
)
def test_plain_http_is_only_advised_for_private_hosts(error: Exception) -> None:
    advice = "use http://"
    assert advice in connection_failed(error, SERVER, "", 1.5, in_handshake=True, is_private=True).message
    assert advice not in connection_failed(error, SERVER, "", 1.5, in_handshake=True).message
    proxied = connection_failed(ProxyUnreachable(error), SERVER, "proxy:3128", 1.5, is_private=True)
    assert advice not in proxied.message
    assert advice not in disconnected(error, SERVER).message


def test_a_timeout_in_the_handshake_says_so() -> None:
    found = connection_failed(TimeoutError(), SERVER, "", 1.5, in_handshake=True)
    assert found.message == (
        f"{SERVER} did not complete the TLS handshake within 1.5 seconds (connect_timeout): check its address"
    )


def test_without_a_connect_timeout_no_seconds_are_reported() -> None:
    assert connection_failed(TimeoutError(), SERVER, "", None).message == f"could not connect to {SERVER}"


def test_an_untrusted_certificate_is_reported_with_its_reason() -> None:
    cause = ssl.SSLCertVerificationError(1, "failed")
    cause.verify_message = "self-signed certificate"
    found = connection_failed(cause, SERVER, "", None)
    assert (found.code, found.phase) == ("certificate_error", "connect")
    assert (
        found.message == f"the certificate of {SERVER} is not trusted: self-signed certificate; check ca_file"
    )


def test_failures_of_a_proxy_name_the_proxy() -> None:
    refused = ProxyRefusal(407, "Not for you")
    found = connection_failed(refused, SERVER, "proxy:3128", None)
    assert (found.code, found.status, found.phase) == ("proxy_error", 407, "connect")
    assert found.message == "the proxy proxy:3128 returned 407 Not for you"
    unreachable = ProxyUnreachable(ConnectionRefusedError())
    found = connection_failed(unreachable, SERVER, "proxy:3128", None)
    assert found.message.startswith("could not connect to the proxy proxy:3128: connection refused")
    assert found.status is None


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("first_byte", f"{SERVER} sent nothing for 0.5 seconds (first_byte_timeout)"),
        ("idle", f"{SERVER} stopped sending: nothing arrived for 0.5 seconds (idle_timeout)"),
    ],
)
def test_a_timeout_has_its_phase_and_seconds(phase: str, message: str) -> None:
    found = timed_out(SERVER, phase, 0.5, "req_1")
    assert (found.message, found.phase, found.request_id) == (message, phase, "req_1")


DISCONNECTS: list[tuple[Exception, str]] = [
    (Unanswered(), "the server closed it without a response"),
    (Truncated(), "it ended in the middle of the body"),
    (UndecodableBody("gzip"), "the body is not valid gzip, although that is its content encoding"),
    (ConnectionResetError(errno.ECONNRESET, "GET http://host/?key=secret"), "Connection reset by peer"),
    (OSError("secret"), "OSError"),
]


@pytest.mark.parametrize(("error", "reason"), DISCONNECTS, ids=lambda value: type(value).__name__)
def test_a_disconnect_has_a_reason_without_the_url(error: Exception, reason: str) -> None:
    """The text of a system error may contain the URL, with a key in its query."""
    found = disconnected(error, SERVER, "req_1")
    assert isinstance(found, NetworkError)
    assert found.message == f"the connection to {SERVER} broke: {reason}"
    assert (found.phase, found.request_id) == ("cut", "req_1")


def test_bytes_that_are_not_http_are_a_protocol_error() -> None:
    found = disconnected(InvalidHttp(b"secret"), SERVER)
    assert isinstance(found, ProtocolError)
    assert found.code == "invalid_http"
    assert "secret" not in found.message
    assert "check the scheme and the port" in found.message


def test_a_timeout_of_a_connection_is_reported_with_its_phase() -> None:
    found = disconnected(TimedOut("idle", 2.0), SERVER, "req_1")
    assert (found.phase, found.request_id) == ("idle", "req_1")
    assert found.message == timed_out(SERVER, "idle", 2.0).message


def test_a_tls_alert_after_the_request_is_reported_as_such() -> None:
    """TLS 1.3 refuses a client certificate only after the handshake."""
    found = disconnected(tls_alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), SERVER)
    assert (found.code, found.phase) == ("tls_error", "cut")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unanswered(), True),
        (ConnectionResetError(), True),
        (InvalidHttp(), True),
        (ConnectionAbortedError(), True),
        (BrokenPipeError(), True),
        (TimedOut("first_byte", 1.0), True),
        (TimedOut("idle", 1.0), False),
        (Truncated(), False),
    ],
)
def test_some_failures_suggest_a_server_that_requires_tls(error: Exception, expected: bool) -> None:
    assert may_require_tls(error) is expected


def test_an_error_page_about_plain_http_is_recognized() -> None:
    assert body_asks_for_tls(b"<p>You're speaking plain HTTP to an SSL-enabled server port.")
    assert not body_asks_for_tls(b"<p>Bad Request")
    assert "use https:// in its address" in tls_required(SERVER).message


def test_only_some_errors_mean_that_the_server_has_no_tls() -> None:
    assert is_not_tls(tls_alert("RECORD_LAYER_FAILURE"))
    assert not is_not_tls(tls_alert("CERTIFICATE_VERIFY_FAILED"))


def test_a_tls_error_without_openssls_reason_is_a_disconnect() -> None:
    """asyncio raises such errors itself."""
    error = disconnected(ssl.SSLError("application data after close notify"), "example.com")
    assert error.code == "network_error"
    assert error.message.startswith("the connection to example.com broke")
    assert not is_not_tls(ssl.SSLError("x"))
