"""Checks the proxies of the environment: which targets use one, whether it can be reached, and whether it
captures the requests that clients send to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from penstock.dialects.registry import rendered_dialect
from penstock.doctor.findings import Finding
from penstock.errors import OpenResponsesError
from penstock.gateway.settings import Settings
from penstock.net.dialing import connect
from penstock.net.network_errors import connection_failed
from penstock.net.urls import Proxy, proxy_for, proxy_variable
from penstock.upstream.target import UpstreamTarget, address_of

_PATIENCE = 5.0
"""Seconds to connect to a proxy."""

_LOOPBACK = ("127.0.0.1", "localhost")
"""How clients address a gateway on this machine."""


async def check_proxies(
    settings: Settings, targets: Iterable[UpstreamTarget], environment: Mapping[str, str]
) -> list[Finding]:
    users: dict[Proxy, list[str]] = {}
    direct: list[str] = []
    for target in targets:
        proxy = proxy_of(target, environment)
        if proxy is None:
            direct.append(target.name)
        else:
            users.setdefault(proxy, []).append(target.name)
    found = [await _reached(proxy, names) for proxy, names in users.items()]
    if not users:
        found = [_no_proxy(direct)]
    return [*found, *_captured(settings, environment)]


def proxy_of(target: UpstreamTarget, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy of a target, as its connections will choose it."""
    address = address_of(target.base_url, rendered_dialect(target.dialect).connection)
    return proxy_for(address, target.proxy, environment)


def _no_proxy(direct: list[str]) -> Finding:
    sentence = f"no proxy is used for {', '.join(direct)}" if direct else "no proxy is used"
    return Finding(id="proxy", kind="network", status="ok", sentence=sentence, details={"direct": direct})


async def _reached(proxy: Proxy, names: list[str]) -> Finding:
    used = f"the proxy {proxy.authority} is used for {', '.join(names)}"
    error = await _connection_error(proxy)
    if error is None:
        return Finding(
            id="proxy",
            kind="network",
            status="ok",
            sentence=f"{used}, and can be reached",
            details={"proxy": proxy.authority, "targets": names},
        )
    return Finding(
        id="proxy",
        kind="network",
        status="problem",
        sentence=f"{used}, but {error.message}",
        fix="start the proxy or correct HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; for targets without a proxy, "
        'add their hosts to NO_PROXY, or set proxy = "" in [targets.NAME]',
        details={"proxy": proxy.authority, "targets": names},
    )


async def _connection_error(proxy: Proxy) -> OpenResponsesError | None:
    parts = urlsplit(proxy.url)
    try:
        async with asyncio.timeout(_PATIENCE):
            (await connect(parts.hostname or "", parts.port or 80)).close()
    except (OSError, UnicodeError) as error:
        return connection_failed(error, f"the proxy {proxy.authority}", proxy.authority, _PATIENCE)
    return None


def _captured(settings: Settings, environment: Mapping[str, str]) -> list[Finding]:
    """Return a finding if clients would send requests for the gateway to a proxy (ask L5).

    Penstock never uses a proxy for this machine, but clients that are built on httpx or on Node's fetch do,
    unless NO_PROXY lists the host literally.
    """
    scheme = "https" if settings.tls_cert else "http"
    names = (f"{scheme}_proxy", "all_proxy")
    variable = next((name for name in names if proxy_variable(name, environment)), "")
    if not variable:
        return []
    exceptions = {
        entry.strip().lower() for entry in proxy_variable("no_proxy", environment).split(",") if entry.strip()
    }
    missing = [] if "*" in exceptions else [host for host in _LOOPBACK if host not in exceptions]
    if not missing:
        sentence = f"{variable.upper()} is set, and NO_PROXY excepts the gateway's address"
        return [Finding(id="loopback", kind="network", status="ok", sentence=sentence)]
    kept = ",$NO_PROXY" if exceptions else ""
    return [
        Finding(
            id="loopback",
            kind="network",
            status="warning",
            sentence=f"{variable.upper()} is set, but NO_PROXY lacks {' and '.join(missing)}: clients "
            "built on httpx would send their requests for the gateway to the proxy",
            fix=f"export NO_PROXY={','.join(missing)}{kept}",
            details={"variable": variable.upper(), "missing": missing},
        )
    ]
