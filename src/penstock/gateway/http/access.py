"""Who may use the gateway: keys, and the pages that a browser may show while it talks to us.

Headers are given with their names in small letters.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from msgspec import Struct

from penstock.gateway.config.values import quoted
from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import ClientKey, Settings
from penstock.net.urls import is_loopback
from penstock.store.contract import LOCAL

KEY = re.compile(r"pk_[A-Za-z0-9_-]{43}")
"""The form of our keys. Whatever has it is never sent to an upstream, known or not."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]+)", re.IGNORECASE)


class Origin(Struct, frozen=True):
    """Where a web page is from."""

    scheme: str
    host: str
    port: int | None


def authenticate(settings: Settings, headers: Mapping[str, str]) -> ClientKey | None:
    """The key that a client has shown, as a bearer token or as `x-api-key`. None when there are no keys.

    `RequestRefused` (401) when there are keys, and the client has none of them.
    """
    if not settings.keys:
        return None
    given = _given(headers)
    for token in given:
        found = _known(settings, token)
        if found is not None:
            return found
    what = "the key is not one of this gateway's" if given else "this gateway needs a key"
    raise RequestRefused(
        401,
        "authentication_error",
        f"{what}: send yours as `Authorization: Bearer KEY` or as `x-api-key: KEY`",
        headers=[("www-authenticate", "Bearer")],
    )


def tenant_of(key: ClientKey | None) -> str:
    """Each key is a tenant of its own; without keys there is one."""
    return LOCAL if key is None else key.name


def client_key_of(settings: Settings, headers: Mapping[str, str]) -> str:
    """The key that the client brought for the upstream; empty where it brought none.

    A client may send two: one for us, in one header, and in the other one for the upstream.
    """
    for token in _given(headers):
        # One of our keys that was removed, or is another gateway's, is not for the upstream either.
        if _known(settings, token) is None and not KEY.fullmatch(token):
            return token
    return ""


def check_origin(settings: Settings, host_header: str | None, origin_header: str | None, port: int) -> None:
    """Refuse (403) what a web page may have sent that nobody allowed. `port` is the one we listen on.

    A page can make a browser ask this machine, and can give its own name our address (DNS rebinding). Without
    keys only the names of this machine are answered, so that such a name leads nowhere.
    """
    host, named_port = _split(host_header or "")
    if not settings.keys and not _is_our_name(settings, host):
        raise _forbidden(
            "this gateway has no keys, so it answers only to the names of its own machine. Ask it as "
            "127.0.0.1 or localhost, name this host in server.allowed_hosts, or make a key: "
            "penstock keys create NAME"
        )
    if origin_header is None:
        return
    origin = read_origin(origin_header)
    if origin is None or not (
        origin in map(read_origin, settings.allowed_origins) or _is_own(origin, host, named_port, port)
    ):
        raise _forbidden(
            "web pages of this origin may not use this gateway; server.allowed_origins lists those that may"
        )


def is_exposed(settings: Settings) -> bool:
    """Would others than this machine reach the gateway without a key?"""
    return not settings.keys and not is_loopback(settings.host)


def create_key(name: str, *, operator: bool = False) -> tuple[str, str]:
    """A new key, and the entry for `penstock.toml` that lets it in."""
    key = "pk_" + secrets.token_urlsafe(32)
    entry = f'[[keys]]\nname = {quoted(name)}\nhash = "sha256:{_digest(key).hex()}"\n'
    return key, entry + ("operator = true\n" if operator else "")


def sees_all(key: ClientKey | None) -> bool:
    """May this client see what the gateway does for others? Without keys there is only one client."""
    return key is None or key.operator


def plain_host(text: str) -> str | None:
    """The name or address of a host in its plain form; None for what is more, or less, than a host."""
    text = text.strip()
    if ":" in text and not text.startswith("["):
        text = f"[{text}]"
    host, port = _split(text)
    return host if host and port is None and not text.endswith(":") else None


def read_origin(text: str) -> Origin | None:
    """None for what is no origin: `null`, an asterisk, a URL with a path."""
    found = _ORIGIN.fullmatch(text.strip())
    if found is None:
        return None
    host, port = _split(found[2])
    scheme = found[1].lower()
    if not host or "*" in host:
        return None
    return Origin(scheme, host, _PORTS.get(scheme) if port is None else port)


def _given(headers: Mapping[str, str]) -> list[str]:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [given for given in (bearer, headers.get("x-api-key", "").strip()) if given]


def _known(settings: Settings, token: str) -> ClientKey | None:
    """Compares with every key, and each to its end: how long it takes tells nothing."""
    digest = _digest(token)
    found = None
    for key in settings.keys:
        if compare_digest(digest, key.digest):
            found = key
    return found


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _split(authority: str) -> tuple[str, int | None]:
    """A host in its plain form, empty where it cannot be read, and the port if one is named."""
    found = _HOST.fullmatch(authority.strip())
    if found is None:
        return "", None
    host = found[1].lower().rstrip(".")
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return "", None
    return host, int(found[2]) if found[2] else None


def _is_our_name(settings: Settings, host: str) -> bool:
    if not host:
        return False
    return is_loopback(host) or host == plain_host(settings.host) or host in settings.allowed_hosts


def _is_own(origin: Origin, host: str, named_port: int | None, port: int) -> bool:
    """Is this a page that we served ourselves? Proxies may leave the port out of `Host`."""
    if origin.scheme not in _PORTS or not host or origin.host != host:
        return False
    return (
        origin.port == named_port if named_port is not None else origin.port in (_PORTS[origin.scheme], port)
    )


def _forbidden(message: str) -> RequestRefused:
    return RequestRefused(403, "permission_denied", message)
