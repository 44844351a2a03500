"""TLS contexts of test servers, with certificates of an authority that is made for the test."""

from __future__ import annotations

import ssl

import trustme


def server_context(authority: trustme.CA, *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if wants_client:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
