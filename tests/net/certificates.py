"""TLS contexts and certificate files, of an authority that is made for the test."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


def server_context(authority: trustme.CA, *names: str, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names or ("127.0.0.1",)).configure_cert(context)
    if wants_client:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Return a context for clients."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def certificate_files(authority: trustme.CA, folder: Path, name: str) -> tuple[str, str]:
    """Write a certificate with this name, and its key; return their paths."""
    issued = authority.issue_cert("127.0.0.1", common_name=name)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    return str(certificate), str(key)
