"""Access control: client keys, and the web pages that may use the gateway from a browser.

Header names are in lower case.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest

from msgspec import Struct

from penstock.gateway.config.key_edits import key_entry
from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import ClientKey, Settings
from penstock.net.urls import is_loopback
from penstock.store.records import LOCAL

KEY = re.compile(r"pk_[A-Za-z0-9_-]{43}")
"""The format of our keys. A token in this format is never sent to an upstream, known or not."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]+)", re.IGNORECASE)


class Origin(Struct, frozen=True):
    """The origin of a web page."""

    scheme: str
    host: str
    port: int | None


def authenticate(
    settings: Settings, headers: Mapping[str, str], clock: Callable[[], float] = time.time
) -> ClientKey | None:
    """Return the client's key, from a bearer token or `x-api-key`; None if no keys are configured.

    Raise `RequestRefused` (401) if keys are configured and the client sent none of them, or an expired one.
    """
    if not settings.keys:
        return None
    tokens, now, expired = _tokens(headers), clock(), ""
    for token in tokens:
        found = _find_key(settings, token)
        if found is None:
            continue
        key, until = found
        if until is None or now < until:
            return key
        expired = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
    if expired:
        raise _unauthorized(f"this key expired at {expired}: ask the operator of this gateway for a new one")
    what = "this gateway does not know the key" if tokens else "this gateway requires a key"
    raise _unauthorized(f"{what}: send yours as `Authorization: Bearer KEY` or as `x-api-key: KEY`")


def check_model(key: ClientKey | None, model: str) -> None:
    """Refuse (403) a model that this key may not use. Whether there is such a model is not revealed."""
    if key is not None and not key.may_use(model):
        message = (
            f"this key may not use the model {model[:128]!r}; GET /v1/models lists those that it may use"
        )
        raise RequestRefused(403, "permission_denied", message, param="model")


def sees_metrics(
    settings: Settings, headers: Mapping[str, str], clock: Callable[[], float] = time.time
) -> bool:
    """Return whether a client of the gateway's own address sees all metrics, or only those that reveal
    nothing. Raise `RequestRefused` (401) if it sent neither a key nor the token, where there is one."""
    if settings.metrics_digest and has_metrics_token(settings, headers):
        return True
    if settings.metrics_digest and not settings.keys:
        raise metrics_unauthorized()
    return sees_all(authenticate(settings, headers, clock))


def has_metrics_token(settings: Settings, headers: Mapping[str, str]) -> bool:
    """Return whether a client may read `/metrics` at its own address. Compares in constant time."""
    if not settings.metrics_digest:
        return True
    return any(compare_digest(key_digest(token), settings.metrics_digest) for token in _tokens(headers))


def check_page_of_metrics(settings: Settings, headers: Mapping[str, str]) -> None:
    """Refuse (403) requests to the address for metrics that come from a web page. Without a token, that also
    means a host name that is not this machine's (DNS rebinding)."""
    host, _ = _split(headers.get("host", ""))
    bound = plain_host(settings.metrics[0]) if settings.metrics else None
    if "origin" in headers or not (settings.metrics_digest or is_loopback(host) or host == bound):
        raise _forbidden(
            "this address serves metrics to programs, not to web pages: use 127.0.0.1 as the host"
        )


def metrics_unauthorized() -> RequestRefused:
    return _unauthorized(
        "/metrics requires the token in the variable that server.metrics_token_env names: send it as "
        "`Authorization: Bearer TOKEN`"
    )


def tenant_of(key: ClientKey | None) -> str:
    """Return the tenant of a key: each key has its own; without keys there is only one."""
    return LOCAL if key is None else key.name


def client_key_of(settings: Settings, headers: Mapping[str, str]) -> str:
    """Return the client's key for the upstream; empty if it sent none.

    A client may send two keys in two headers: one for the gateway and one for the upstream.
    """
    for token in _tokens(headers):
        # A removed key of ours, or a key of another gateway, is not for the upstream either.
        if not KEY.fullmatch(token) and _find_key(settings, token) is None:
            return token
    return ""


def check_origin(settings: Settings, host_header: str | None, origin_header: str | None, port: int) -> None:
    """Refuse (403) requests that may come from a web page that is not allowed. `port` is our listening port.

    A page can make a browser send requests to this machine, and can point its own host name at our address
    (DNS rebinding). So without keys, only the names of this machine are accepted as `Host`.
    """
    host, named_port = _split(host_header or "")
    if not settings.keys and not _is_our_name(settings, host):
        raise _forbidden(
            "this gateway has no keys, so it accepts only requests whose Host header names this machine. Use "
            "127.0.0.1 or localhost, add this host to server.allowed_hosts, or create a key: "
            "penstock keys create NAME"
        )
    if origin_header is None:
        return
    origin = read_origin(origin_header)
    if origin is None or not (
        origin in map(read_origin, settings.allowed_origins) or _is_own(origin, host, named_port, port)
    ):
        raise _forbidden(
            "web pages from this origin may not use this gateway; add the origin to server.allowed_origins"
        )


def is_exposed(settings: Settings) -> bool:
    """Return whether other machines can reach the gateway without a key."""
    return not settings.keys and not is_loopback(settings.host)


def are_metrics_exposed(settings: Settings) -> bool:
    """Return whether other machines can read the metrics at their own address without a token."""
    return (
        settings.metrics is not None and not settings.metrics_digest and not is_loopback(settings.metrics[0])
    )


def new_key() -> tuple[str, str]:
    """Return a new key and its hash as in `penstock.toml`."""
    key = "pk_" + secrets.token_urlsafe(32)
    return key, f"sha256:{key_digest(key).hex()}"


def create_key(name: str, **settings: object) -> tuple[str, str]:
    """Return a new key, and the entry for `penstock.toml` that accepts it, with these settings."""
    key, hash = new_key()
    return key, key_entry(name, hash, settings)


def sees_all(key: ClientKey | None) -> bool:
    """Return whether this client may see what the gateway does for others. Without keys, every client may."""
    return key is None or key.admin


def plain_host(text: str) -> str | None:
    """Return the normalised name or address of a host; None if the text is not a host alone."""
    text = text.strip()
    if ":" in text and not text.startswith("["):
        text = f"[{text}]"
    host, port = _split(text)
    return host if host and port is None and not text.endswith(":") else None


def read_origin(text: str) -> Origin | None:
    """Return the origin; None if the text is not one (`null`, an asterisk, a URL with a path)."""
    found = _ORIGIN.fullmatch(text.strip())
    if found is None:
        return None
    host, port = _split(found[2])
    scheme = found[1].lower()
    if not host or "*" in host:
        return None
    return Origin(scheme, host, _PORTS.get(scheme) if port is None else port)


def _tokens(headers: Mapping[str, str]) -> list[str]:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [token for token in (bearer, headers.get("x-api-key", "").strip()) if token]


def _find_key(settings: Settings, token: str) -> tuple[ClientKey, float | None] | None:
    """Return the key of a token, and when it expires. Always compares with every key, in constant time,
    against timing attacks."""
    digest = key_digest(token)
    found = None
    for key in settings.keys:
        if compare_digest(digest, key.digest):
            found = key, key.expires_at
        if key.previous_digest and compare_digest(digest, key.previous_digest):
            found = key, min(key.previous_until, key.expires_at or key.previous_until)
    return found


def key_digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _split(authority: str) -> tuple[str, int | None]:
    """Return the normalised host, empty if it is invalid, and the port if there is one."""
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
    """Return whether the page's origin is the gateway itself. Proxies may omit the port from `Host`."""
    if origin.scheme not in _PORTS or not host or origin.host != host:
        return False
    return (
        origin.port == named_port if named_port is not None else origin.port in (_PORTS[origin.scheme], port)
    )


def _unauthorized(message: str) -> RequestRefused:
    return RequestRefused(401, "authentication_error", message, headers=[("www-authenticate", "Bearer")])


def _forbidden(message: str) -> RequestRefused:
    return RequestRefused(403, "permission_denied", message)
