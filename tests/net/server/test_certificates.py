"""The certificate of a server, loaded and loaded again."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.net.server.certificates import InvalidCertificate, load_certificate, tls_context


def files_of(authority: trustme.CA, folder: Path, name: str) -> tuple[str, str]:
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    return str(certificate), str(key)


def served_certificate(context: ssl.SSLContext, authority: trustme.CA) -> bytes | None:
    """Return the certificate that a client gets, after a handshake in memory."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert(binary_form=True)


def test_a_failed_reload_leaves_the_certificate_in_use(tmp_path: Path) -> None:
    """A renewal writes two files: between the two, the certificate and the key do not match."""
    authority = trustme.CA()
    old, new = files_of(authority, tmp_path, "old"), files_of(authority, tmp_path, "new")
    context = tls_context(*old)
    before = served_certificate(context, authority)
    assert before
    with pytest.raises(InvalidCertificate, match="cannot be used with its key"):
        load_certificate(context, new[0], old[1])
    assert served_certificate(context, authority) == before
    load_certificate(context, *new)
    assert served_certificate(context, authority) not in (None, before)


def test_a_missing_file_is_named_by_its_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidCertificate, match="No such file"):
        tls_context(str(tmp_path / "none.crt"), str(tmp_path / "none.key"))
