"""Opens connections: name resolution, TCP, TLS, and tunnels through HTTP proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.net.connection import UpstreamConnection
from penstock.net.network_errors import ConnectionFault, ProxyRefusal, ProxyUnreachable
from penstock.net.response_parser import AnswerHead
from penstock.net.urls import Address, Proxy, host_and_port

_HEAD_START = 0.25
"""Seconds (RFC 8305). An address that does not answer within this time gets a competitor."""

_AddressInfo = tuple[int, int, int, str, Any]
"""What `getaddrinfo` returns for one address."""


class UpstreamRoute(Struct, frozen=True):
    """How a server is reached. Without `tls`, the server is reached by plain HTTP, which a proxy forwards."""

    address: Address
    proxy: Proxy | None
    tls: ssl.SSLContext | None
    proxy_tls: ssl.SSLContext | None


async def dial(route: UpstreamRoute, make: Callable[[], UpstreamConnection]) -> UpstreamConnection:
    """Return a new connection that is ready for a request. `make` is called when only TLS is missing. Raise
    `OSError`, `UnicodeError` for an impossible host name, or `ConnectionFault`."""
    address, proxy = route.address, route.proxy
    if proxy is None:
        return await _open(address.host, address.port, route.tls, make)
    is_tunnel = route.tls is not None
    parts = urlsplit(proxy.url)
    assert parts.hostname is not None  # `read_proxy` has checked both
    assert parts.port is not None
    try:
        tls = route.proxy_tls if parts.scheme == "https" else None
        connection = await _open(parts.hostname, parts.port, tls, UpstreamConnection if is_tunnel else make)
    except (OSError, UnicodeError) as error:
        failure = ProxyUnreachable(error)
    else:
        return await _tunnel(connection, route, make) if is_tunnel else connection
    raise failure  # outside the handler, so that nothing is chained: see `network_errors`


async def _open(
    host: str, port: int, tls: ssl.SSLContext | None, make: Callable[[], UpstreamConnection]
) -> UpstreamConnection:
    connected = await connect(host, port)
    connection = make()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: connection, sock=connected, ssl=tls, server_hostname=_server_name(host) if tls else None
        )
    except BaseException:
        if connection.transport is None:
            connected.close()
        else:  # the socket belongs to the transport: another one must not get its number while that uses it
            connection.abort()
        raise
    return connection


async def _tunnel(
    proxied: UpstreamConnection, route: UpstreamRoute, make: Callable[[], UpstreamConnection]
) -> UpstreamConnection:
    """Ask a proxy for a tunnel to the server, and start TLS in it."""
    authority = host_and_port(route.address.host, route.address.port)
    lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}"]
    if route.proxy is not None and route.proxy.authorization:
        lines.append(f"proxy-authorization: {route.proxy.authorization}")
    assert route.tls is not None
    try:
        head = await _answer_of(proxied, "\r\n".join([*lines, "", ""]).encode())
        transport = proxied.transport
        if not 200 <= head.status < 300:  # RFC 9110, 9.3.6
            raise ProxyRefusal(head.status, head.reason or _phrase(head.status))
        if transport is None:
            raise ConnectionResetError
        connection = make()
        name = _server_name(route.address.host)
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(transport, connection, route.tls, server_hostname=name)
        if secured is None or secured.is_closing():
            raise ConnectionResetError
        connection.connection_made(secured)
    except BaseException:
        proxied.abort()
        raise
    return connection


async def _answer_of(proxied: UpstreamConnection, request: bytes) -> AnswerHead:
    try:
        return await proxied.ask("CONNECT", request)
    except (ConnectionFault, OSError) as error:
        failure = ProxyUnreachable(error)
    raise failure  # outside the handler, as above


def _server_name(host: str) -> str:
    return host.rstrip(".")  # certificates have no dot at the end


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


async def connect(host: str, port: int) -> socket.socket:
    """Return a connected socket. If a host has several addresses, they compete (RFC 8305)."""
    infos = await _resolve(host, port)
    if len(infos) == 1:
        return await _connect_to(infos[0])
    failures: list[BaseException] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    try:
        for info in infos:
            task = asyncio.ensure_future(_connect_to(info))
            pending.add(task)
            if (winner := await _first_of(pending, failures, _HEAD_START)) is not None:
                return winner
        while pending:
            if (winner := await _first_of(pending, failures, None)) is not None:
                return winner
    finally:
        for task in pending:
            task.cancel()
            task.add_done_callback(_close_loser)
    raise failures[0]


async def _first_of(
    pending: set[asyncio.Task[socket.socket]], failures: list[BaseException], seconds: float | None
) -> socket.socket | None:
    """Return the socket of the first attempt that succeeds; None if those that ended have failed."""
    done, _ = await asyncio.wait(pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        pending.discard(task)
        failure = task.exception()
        if failure is None:
            return task.result()
        failures.append(failure)
    return None


def _close_loser(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _resolve(host: str, port: int) -> list[_AddressInfo]:
    """Return the addresses of a host: the families take turns, the preferred one first."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, UnicodeError):
            socket.inet_pton(family, host)
            return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
    loop = asyncio.get_running_loop()
    infos: list[_AddressInfo] = [*await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not infos:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    preferred = [info for info in infos if info[0] == infos[0][0]]
    others = [info for info in infos if info[0] != infos[0][0]]
    pairs = chain.from_iterable(zip_longest(preferred, others))
    return [info for info in pairs if info is not None]


async def _connect_to(info: _AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    connecting = socket.socket(family, kind, protocol)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting
