"""Reads the URLs of endpoints and proxies. Nothing here uses the network."""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from penstock.errors import InvalidRequestError

_EXAMPLE = "http://127.0.0.1:8080/v1"
_PORTS = {"http": 80, "https": 443}
_VERSION = re.compile(r"/v\d", re.IGNORECASE)
_SENT_UNESCAPED = "/?%:@!$&'()*+,;=-._~[]|"
_PRIVATE_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Endings of names that the public DNS does not have."""
_UNESCAPED = re.compile(r"[\s\x00-\x1f\x7f]")


class Address(Struct, frozen=True):
    """The address of an endpoint, read from any common form of its URL (ask L3)."""

    scheme: str
    host: str
    port: int
    authority: str
    """The host and the port as written. Messages show only these, because the query may contain a key."""
    path: str
    """The path before `/responses` and `/models`."""
    query: str
    """Sent with every request: some endpoints require a version there."""
    advice: str
    """A hint for a 404; empty if the URL is unambiguous."""

    def __repr__(self) -> str:
        return f"Address({urlunsplit((self.scheme, self.authority, self.path, '', ''))!r})"

    def url(self, *segments: str, **parameters: str) -> str:
        """Return a URL under the endpoint. Slashes inside a segment are escaped."""
        path = "/".join([self.path, *(quote(segment, safe="") for segment in segments)])
        query = "&".join(part for part in (self.query, urlencode(parameters)) if part)
        return urlunsplit((self.scheme, self.authority, path, query, ""))

    def under(self, path: str) -> str:
        """Return the URL of an escaped path under the endpoint. Its query overrides that of the base URL."""
        path, _, query = path.partition("?")
        own = [pair for pair in query.split("&") if pair]
        names = {pair.partition("=")[0] for pair in own}
        base = [pair for pair in self.query.split("&") if pair and pair.partition("=")[0] not in names]
        return urlunsplit((self.scheme, self.authority, f"{self.path}/{path}", "&".join([*base, *own]), ""))

    @property
    def host_header(self) -> str:
        """The host, and the port unless it is the scheme's own."""
        return host_and_port(self.host, None if self.port == _PORTS[self.scheme] else self.port)

    def request_target(self, url: str) -> str:
        """Return the path and the query of a URL of this server, as they are sent."""
        origin = f"{self.scheme}://{self.authority}"
        target = url[len(origin) :].partition("#")[0]
        if not url.startswith(origin) or target[:1] not in ("", "/", "?"):
            raise ValueError("the URL belongs to another server")
        target = quote(target, safe=_SENT_UNESCAPED)
        return target if target.startswith("/") else "/" + target

    def from_root(self, path: str) -> str:
        """Return a URL on the same server, outside the endpoint."""
        return urlunsplit((self.scheme, self.authority, quote(path), "", ""))


class Form(Struct, frozen=True):
    """The form of an API's base URL."""

    endpoint: re.Pattern[str]
    """Matches the end of the endpoint's own path, which is removed from a base URL."""
    version: str = "/v1"
    """Added to a URL without a path."""
    is_versioned_everywhere: bool = False
    """Whether the version is added to any path without one, as the vendor's own libraries do."""


RESPONSES = Form(re.compile(r"/responses$"))


def read_address(url: str, form: Form = RESPONSES) -> Address:
    """Read a base URL with or without `/v1` or a slash at the end, or the URL of the endpoint itself."""
    url = url.strip()
    if _UNESCAPED.search(url):
        raise _invalid_url("the URL contains a character that must be percent-encoded, such as a space")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _invalid_url(f"the URL is invalid: {error}") from None
    if parts.scheme not in _PORTS:
        raise _invalid_url(f"a URL starts with http:// or https://. Example: {_EXAMPLE}")
    if not host:
        raise _invalid_url(f"the URL has no host. Example: {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise _invalid_url("a URL must not contain a user name or password")
    path, advice = _path_and_advice(parts.path.rstrip("/"), f"{parts.scheme}://{parts.netloc}", form)
    port = _PORTS[parts.scheme] if port is None else port
    return Address(parts.scheme, host, port, parts.netloc, path, parts.query, advice)


def _path_and_advice(path: str, origin: str, form: Form) -> tuple[str, str]:
    base = form.endpoint.sub("", path)
    if _VERSION.search(base):
        return base, ""
    if base == path and (not path or form.is_versioned_everywhere):
        path += form.version
        return path, f"requests were sent to {origin}{path}; if that is not the API, give the full base URL"
    return base, f"the base URL has no {form.version}; perhaps it should be {origin}{base}{form.version}"


def _invalid_url(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="invalid_base_url", param="base_url")


def host_and_port(host: str, port: int | None) -> str:
    """Return a host and a port as they are sent, in ASCII."""
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            host = quote(host)  # an impossible name, which cannot be resolved
    if ":" in host:
        host = f"[{host}]"
    return host if port is None else f"{host}:{port}"


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which is never reached through a proxy (ask L5)."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _ip(host)
    return address is not None and address.is_loopback


def is_private(host: str) -> bool:
    """Return whether a host is this machine or in a private network, as far as its name shows it."""
    host = host.rstrip(".").lower()
    address = _ip(host)
    if address is not None:
        return address.is_private
    return "." not in host or host.endswith(_PRIVATE_NAMES)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Proxy(Struct, frozen=True):
    """A proxy. `url` has no user name or password: they are in `authorization`, the value of the header."""

    url: str
    authority: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.authority!r})"


def proxy_for(address: Address, override: str | None, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for an address. An override applies to every host; an empty one means no proxy.

    If the value of a variable is no proxy, the message of the error begins with the variable's name.
    """
    if override is not None:
        return read_proxy(override) if override else None
    if is_loopback(address.host) or _is_excepted(address, proxy_variable("no_proxy", environment)):
        return None
    for name in (f"{address.scheme}_proxy", "all_proxy"):
        if found := proxy_variable(name, environment):
            return _proxy_of_variable(found, name if environment.get(name) else name.upper())
    return None


def _proxy_of_variable(url: str, variable: str) -> Proxy:
    try:
        return read_proxy(url)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{variable}: {error.message}", code=error.code, param=variable) from None


def proxy_variable(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable such as `no_proxy`, whose name may be in lower case or in capitals."""
    if name == "http_proxy" and "REQUEST_METHOD" in environment:
        # Under CGI the variable in capitals is a request header, which any client may send.
        return environment.get(name, "").strip()
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_excepted(address: Address, exceptions: str) -> bool:
    """Match NO_PROXY: domains with their subdomains, addresses, networks, with or without a port; or `*`."""
    return any(_excepts(entry.strip().lower(), address) for entry in exceptions.split(","))


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
    """Read a proxy's URL; the default scheme is HTTP. It may contain a password: messages never show it."""
    if "://" not in url:
        url = "http://" + url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None:
        raise _invalid_proxy("the proxy's URL is invalid. Example: http://proxy.example:3128")
    if parts.scheme not in _PORTS:
        raise _invalid_proxy(f"a {parts.scheme} proxy is not supported: use an http:// or https:// proxy")
    authority = f"{f'[{host}]' if ':' in host else host}:{port or _PORTS[parts.scheme]}"
    if parts.username is None:
        return Proxy(f"{parts.scheme}://{authority}", authority)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(f"{parts.scheme}://{authority}", authority, "Basic " + b64encode(login).decode())


def _invalid_proxy(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="unsupported_proxy", param="proxy")
