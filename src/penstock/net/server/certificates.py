"""The certificate of a server."""

from __future__ import annotations

import ssl

from penstock.errors import PenstockError


class InvalidCertificate(PenstockError):  # noqa: N818 - named after what is wrong
    """The certificate or the private key cannot be used."""


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a context for a certificate chain and its private key, or raise `InvalidCertificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the files again, for new connections; raise `InvalidCertificate` if that fails."""

    def no_password() -> str:
        raise ValueError("the private key is encrypted: use a key without a password")

    try:
        # First into another context: a failed call replaces the certificate before it refuses the key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=no_password)
        context.load_cert_chain(certificate, key, password=no_password)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidCertificate(f"cannot be used with its key: {reason}") from None
