"""TLS: trusted authorities, certificates of clients and servers, and how failures are explained."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import InvalidRequestError, NetworkError, OpenResponsesError
from penstock.net.tls import InvalidCertificate, load_certificate, server_tls_context, supports_plain_http
from tests.client.asking import KEY, REQUEST, Clock, asking, read
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    Connection,
    Script,
    Server,
    answer,
    chunk,
    open_files,
    run,
    send,
    sse,
    streamed,
)
from tests.net.certificates import certificate_files, server_context, trusting


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


async def failure_with_tls(
    context: ssl.SSLContext, *scripts: Script, **settings: Any
) -> tuple[OpenResponsesError, list[float]]:
    """Return the failure of a request to a server with TLS, and the waits before it."""
    clock = Clock()
    async with Server(*scripts, tls=context) as server:
        config = ClientConfig(server.url, **settings)
        async with OpenResponsesClient(config, sleep=clock.sleep, random=lambda: 1.0) as client:
            with pytest.raises(OpenResponsesError) as caught:
                await client.models()
    return caught.value, clock.waits


def test_a_server_with_a_certificate_of_ca_file_is_trusted(authority: trustme.CA, ca_file: str) -> None:
    async def main() -> None:
        async with (
            Server(streamed(), [answer(200, [])], tls=server_context(authority)) as server,
            OpenResponsesClient(ClientConfig(server.url, ca_file=ca_file)) as client,
        ):
            assert len(await read(client.stream(REQUEST))) == 11
            assert await client.models() == []

    run(main())


def test_a_server_of_an_unknown_authority_is_not_trusted(authority: trustme.CA) -> None:
    error, waits = run(failure_with_tls(server_context(authority)))
    assert isinstance(error, NetworkError)
    assert (error.code, error.phase) == ("certificate_error", "connect")
    assert "is not trusted" in error.message
    assert "ca_file" in error.message
    assert waits == []


def test_the_client_certificate_is_sent(authority: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    ours = authority.issue_cert("client@example.org")
    chain, key, both = tmp_path / "chain.pem", tmp_path / "key.pem", tmp_path / "both.pem"
    ours.cert_chain_pems[0].write_to_path(str(chain))
    ours.private_key_pem.write_to_path(str(key))
    ours.private_key_and_cert_chain_pem.write_to_path(str(both))

    async def main() -> None:
        context = server_context(authority, wants_client=True)
        async with Server([answer(200, [])], [answer(200, [])], tls=context) as server:
            for cert, its_key in ((str(chain), str(key)), (str(both), None)):
                config = ClientConfig(server.url, ca_file=ca_file, client_cert=cert, client_key=its_key)
                async with OpenResponsesClient(config) as client:
                    assert await client.models() == []

    run(main())


def test_a_missing_client_certificate_is_reported(authority: trustme.CA, ca_file: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do TLS by hand: asyncio's own server disconnects without an alert."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = server_context(authority, wants_client=True).wrap_bio(incoming, outgoing, server_side=True)
        while data := await reader.read(65536):
            incoming.write(data)
            with suppress(ssl.SSLError):
                tls.do_handshake()
            writer.write(outgoing.read())
        writer.close()

    async def main() -> None:
        clock = Clock()
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        config = ClientConfig(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", ca_file=ca_file)
        async with server, OpenResponsesClient(config, sleep=clock.sleep) as client:
            with pytest.raises(
                NetworkError, match="the server requires a client certificate; set client_cert"
            ) as caught:
                await client.models()
            assert caught.value.code == "tls_error"
        assert clock.waits == []

    run(main())


async def failure_at(address: str, **settings: Any) -> OpenResponsesError:
    """Return the failure of a request, which must not be retried."""
    clock = Clock()
    config = ClientConfig(address, key=lambda: KEY, **settings)
    async with OpenResponsesClient(config, sleep=clock.sleep) as client:
        with pytest.raises(OpenResponsesError) as caught:
            await client.models()
    assert clock.waits == []
    return caught.value


def test_https_to_a_server_without_tls_is_explained() -> None:
    async def main() -> None:
        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        authority_text = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            error = await failure_at(f"https://{authority_text}")
        assert (error.code, error.phase) == ("tls_error", "connect")
        assert error.message == (
            f"the server at {authority_text} does not support TLS: use http:// in its address instead of https://"
        )

    run(main())


@pytest.mark.parametrize("wants_client", [False, True])
def test_http_to_a_server_with_tls_is_explained(authority: trustme.CA, wants_client: bool) -> None:
    async def main() -> None:
        async with Server(tls=server_context(authority, wants_client=wants_client)) as server:
            address = server.url.replace("https:", "http:")
            error = await failure_at(address)
        authority_text = address.removeprefix("http://")
        assert error.code == "tls_error"
        assert error.message == (
            f"the server at {authority_text} requires TLS: use https:// in its address instead of http://"
        )

    run(main())


WANTS_TLS: dict[str, bytes] = {
    "nginx": b"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>",
    "Go": b"Client sent an HTTP request to an HTTPS server.\n",
    "Tomcat": b"Bad Request\r\nThis combination of host and port requires TLS.\r\n",
    "Apache": b"<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />",
}


@pytest.mark.parametrize("name", WANTS_TLS)
def test_an_error_page_about_tls_is_explained(name: str) -> None:
    async def main() -> None:
        async with Server([answer(400, WANTS_TLS[name], "text/html")]) as server:
            error = await failure_at(server.url)
        assert error.code == "tls_error"
        assert "use https://" in error.message

    run(main())


async def handshake(
    context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Do TLS by hand, after the first byte was read."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    data = b"\x16"
    while data:
        incoming.write(data)
        with suppress(ssl.SSLError):
            tls.do_handshake()
        writer.write(outgoing.read())
        data = await reader.read(65536)


async def wait_for_more(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def alert(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
    await writer.drain()


async def close(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    pass


@pytest.mark.parametrize("react", [wait_for_more, reset, alert, close])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_http_to_a_tls_port_is_recognised_however_the_server_reacts(
    authority: trustme.CA, react: Any, version: ssl.TLSVersion
) -> None:
    context = server_context(authority)
    context.minimum_version = context.maximum_version = version
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1)
        if first == b"\x16":
            await handshake(context, reader, writer)
        else:
            requests.append(first)
            await react(reader, writer)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            error = await failure_at(f"http://{place}", first_byte_timeout=0.5)
        assert error.code == "tls_error"
        assert error.message == (
            f"the server at {place} requires TLS: use https:// in its address instead of http://"
        )
        assert requests == [b"G"]  # the request was sent once

    run(main())


def test_a_tls_alert_is_enough_to_know_that_a_server_requires_tls() -> None:
    """The check would fail at this server: it refuses every handshake, as one with an old version does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1) != b"\x16":
            await alert(reader, writer)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            error = await failure_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert "use https://" in error.message

    run(main())


def test_https_to_a_plain_server_that_waits_for_more_is_explained() -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            lines.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.0 404 Not Found\r\n\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            error = await failure_at(f"https://{place}", connect_timeout=0.5)
        assert (error.code, error.phase) == ("tls_error", "connect")
        assert f"the server at {place} does not support TLS: use http://" in error.message
        assert lines == [b"HEAD / HTTP/1.0\r\n\r\n"]  # neither the request nor the key

    run(main())


@pytest.mark.parametrize("answered", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"220 mail\r\n\r\n"])
def test_a_server_that_refuses_plain_http_is_not_called_plain(answered: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answered)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            assert not await supports_plain_http("127.0.0.1", server.sockets[0].getsockname()[1])
        assert not await supports_plain_http("127.0.0.1", 1)

    run(main())


def test_a_plain_server_that_disconnects_is_checked_for_tls_once() -> None:
    async def main() -> None:
        greetings: list[bytes] = []

        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            greetings.append(await reader.read(1))
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        config = ClientConfig(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", retries=0)
        async with server, OpenResponsesClient(config) as client:
            for _ in range(3):
                with pytest.raises(NetworkError, match="closed it without a response"):
                    await client.models()
        assert sorted(greetings) == [b"\x16", b"G", b"G", b"G"]

    run(main())


def test_closing_does_not_wait_for_a_tls_shutdown(authority: trustme.CA, ca_file: str) -> None:
    async def main() -> None:
        async def deaf(connection: Connection) -> None:
            connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
            try:
                await asyncio.Event().wait()
            finally:
                connection.writer.transport.abort()

        script = [send(CHUNKED_HEAD + chunk(sse(HELLO[:2]))), deaf]
        async with (
            Server(script, tls=server_context(authority)) as server,
            OpenResponsesClient(ClientConfig(server.url, ca_file=ca_file)) as client,
        ):
            before = open_files()
            async with client.stream(REQUEST) as events:
                await anext(events)
                assert open_files() == before + 2  # both ends
            for _ in range(5):
                await asyncio.sleep(0)
            assert open_files() == before + 1  # only the server's

    run(main())


def encrypted_key(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    from cryptography.hazmat.primitives import serialization

    ours = authority.issue_cert("client@example.org")
    key = serialization.load_pem_private_key(ours.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    ours.cert_chain_pems[0].write_to_path(str(tmp_path / "chain.pem"))
    (tmp_path / "locked.pem").write_bytes(locked)
    return {"client_cert": str(tmp_path / "chain.pem"), "client_key": str(tmp_path / "locked.pem")}


@pytest.mark.parametrize("case", ["no such ca", "no ca", "no such certificate", "no certificate", "locked"])
def test_an_invalid_certificate_file_is_reported(case: str, authority: trustme.CA, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    files: dict[str, Any] = {
        "no such ca": {"ca_file": str(tmp_path / "nothing")},
        "no ca": {"ca_file": str(tmp_path / "text")},
        "no such certificate": {"client_cert": str(tmp_path / "nothing")},
        "no certificate": {"client_cert": str(tmp_path / "text")},
        "locked": encrypted_key(authority, tmp_path),
    }[case]

    async def main() -> None:
        async with asking(base_url="https://127.0.0.1:1", key=lambda: KEY, **files) as (client, _):
            with pytest.raises(InvalidRequestError, match="cannot be used") as caught:
                await client.models()
            assert caught.value.param == next(iter(files))
            assert case != "locked" or "encrypted" in caught.value.message

    run(main())


# -- certificates of servers


def served_certificate(context: ssl.SSLContext, authority: trustme.CA) -> bytes | None:
    """Return the certificate that a client gets, after a handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(authority).wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert(binary_form=True)


def test_a_failed_reload_leaves_the_certificate_in_use(authority: trustme.CA, tmp_path: Path) -> None:
    """A renewal writes two files: between the two, the certificate and the key do not match."""
    old, new = (certificate_files(authority, tmp_path, name) for name in ("old", "new"))
    context = server_tls_context(*old)
    before = served_certificate(context, authority)
    assert before
    with pytest.raises(InvalidCertificate, match="cannot be used with its key"):
        load_certificate(context, new[0], old[1])
    assert served_certificate(context, authority) == before
    load_certificate(context, *new)
    assert served_certificate(context, authority) not in (None, before)


def test_files_of_a_server_that_cannot_be_used_are_refused(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = certificate_files(authority, tmp_path, "good")
    _, other = certificate_files(authority, tmp_path, "other")
    invalid = tmp_path / "invalid.pem"
    invalid.write_text("no certificate")
    for first, second, reason in [
        (str(tmp_path / "missing"), key, "No such file"),
        (str(invalid), key, ""),
        (certificate, other, "mismatch"),
        (certificate, certificate, ""),
    ]:
        with pytest.raises(InvalidCertificate, match=f"cannot be used with its key: .*{reason}"):
            server_tls_context(first, second)
