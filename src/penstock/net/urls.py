"""Where an endpoint is, and whether a proxy stands before it. Nothing here touches the network."""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from penstock.errors import InvalidRequestError

_EXAMPLE = "http://127.0.0.1:8080/v1"
_PORTS = {"http": 80, "https": 443}
_VERSION = re.compile(r"/v\d", re.IGNORECASE)
_UNWRITABLE = re.compile(r"[\s\x00-\x1f\x7f]")


class Address(Struct, frozen=True):
    """An endpoint, read from whatever form of its URL a person has at hand (ask L3)."""

    scheme: str
    host: str
    port: int
    authority: str
    """The host and the port as they were written. Messages show this: the query may hold a key."""
    path: str
    """What `/responses` and `/models` are under."""
    query: str
    """Sent with every request: some endpoints want a version there."""
    advice: str
    """What to try when nothing is found there; empty when the URL leaves no doubt."""

    def __repr__(self) -> str:
        return f"Address({urlunsplit((self.scheme, self.authority, self.path, '', ''))!r})"

    def url(self, *segments: str, **parameters: str) -> str:
        """The URL of something under the endpoint. Every segment is one step, whatever is in it."""
        path = "/".join([self.path, *(quote(each, safe="") for each in segments)])
        query = "&".join(each for each in (self.query, urlencode(parameters)) if each)
        return urlunsplit((self.scheme, self.authority, path, query, ""))

    def under(self, path: str) -> str:
        """The URL of a path that is written already. A query of its own replaces what the base URL says."""
        path, _, query = path.partition("?")
        own = [pair for pair in query.split("&") if pair]
        names = {pair.partition("=")[0] for pair in own}
        kept = [pair for pair in self.query.split("&") if pair and pair.partition("=")[0] not in names]
        return urlunsplit((self.scheme, self.authority, f"{self.path}/{path}", "&".join([*kept, *own]), ""))

    def from_root(self, path: str) -> str:
        """The URL of something on the same server that is no part of the endpoint."""
        return urlunsplit((self.scheme, self.authority, quote(path), "", ""))


class Form(Struct, frozen=True):
    """How people write the base URL of an API."""

    endpoint: re.Pattern[str]
    """The end of a path that is the URL of the endpoint itself."""
    version: str = "/v1"
    """What a URL that names only a host is meant with."""
    is_versioned_everywhere: bool = False
    """Is every path without a version meant with one, as the vendor's own libraries add it?"""


RESPONSES = Form(re.compile(r"/responses$"))


def read_address(url: str, form: Form = RESPONSES) -> Address:
    """Take a base URL with or without `/v1` or a slash at the end, or the URL of the endpoint itself."""
    url = url.strip()
    if _UNWRITABLE.search(url):
        raise _wrong("the URL holds a character that must be percent-encoded, such as a space")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(f"this URL cannot be read: {error}") from None
    if parts.scheme not in _PORTS:
        raise _wrong(f"a URL starts with http:// or https://. Example: {_EXAMPLE}")
    if not host:
        raise _wrong(f"this URL names no host. Example: {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise _wrong("a URL must not carry a user name or a password")
    path, advice = _path_and_advice(parts.path.rstrip("/"), f"{parts.scheme}://{parts.netloc}", form)
    port = _PORTS[parts.scheme] if port is None else port
    return Address(parts.scheme, host, port, parts.netloc, path, parts.query, advice)


def _path_and_advice(path: str, origin: str, form: Form) -> tuple[str, str]:
    base = form.endpoint.sub("", path)
    if _VERSION.search(base):
        return base, ""
    if base == path and (not path or form.is_versioned_everywhere):
        path += form.version
        return path, f"requests went to {origin}{path}; if its API is elsewhere, write the base URL in full"
    return base, f"the base URL has no {form.version}; perhaps it should be {origin}{base}{form.version}"


def _wrong(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="invalid_base_url", param="base_url")


def is_loopback(host: str) -> bool:
    """Is this host this machine, by its name or address? It is never reached through a proxy (ask L5)."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _ip(host)
    return address is not None and address.is_loopback


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Proxy(Struct, frozen=True):
    """The way out. `url` is without the user and the password: they are in `authorization`, as it is sent."""

    url: str
    place: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.place!r})"


def proxy_for(address: Address, override: str | None, environment: Mapping[str, str]) -> Proxy | None:
    """Which proxy a request takes. An override is used for every host; the empty one means none, ever."""
    if override is not None:
        return read_proxy(override) if override else None
    if is_loopback(address.host) or _is_excepted(address, _variable("no_proxy", environment)):
        return None
    found = _variable(f"{address.scheme}_proxy", environment) or _variable("all_proxy", environment)
    return read_proxy(found) if found else None


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if name == "http_proxy" and "REQUEST_METHOD" in environment:
        # Under CGI the variable in capitals is a header that anyone may send.
        return environment.get(name, "").strip()
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_excepted(address: Address, exceptions: str) -> bool:
    """NO_PROXY: names with all that is under them, addresses, networks, with a port or without; or `*`."""
    return any(_excepts(each.strip().lower(), address) for each in exceptions.split(","))


def _excepts(exception: str, address: Address) -> bool:
    if not exception or exception == "*":
        return bool(exception)
    host, ip = address.host.rstrip("."), _ip(address.host)
    if ip is not None and "/" in exception:
        try:
            return ip in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return False
    if (listed := _ip(exception)) is not None:
        return listed == ip
    name, colon, port = exception.rpartition(":")
    if colon and port.isdigit():
        if int(port) != address.port:
            return False
        exception = name
    if ip is not None:
        return _ip(exception) == ip
    name = exception.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith("." + name))


def read_proxy(url: str) -> Proxy:
    """Read a proxy's URL; without a scheme it is HTTP. It may hold a password: no message repeats it."""
    if "://" not in url:
        url = "http://" + url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None:
        raise _wrong_proxy("the proxy's URL cannot be read. Example: http://proxy.example:3128")
    if parts.scheme not in _PORTS:
        raise _wrong_proxy(f"a {parts.scheme} proxy is not supported: use an http:// or https:// proxy")
    place = f"{f'[{host}]' if ':' in host else host}:{port or _PORTS[parts.scheme]}"
    if parts.username is None:
        return Proxy(f"{parts.scheme}://{place}", place)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(f"{parts.scheme}://{place}", place, "Basic " + b64encode(login).decode())


def _wrong_proxy(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="unsupported_proxy", param="proxy")
