"""Request one short streamed response from an endpoint, with the standard library."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import urllib.error
import urllib.request
from email.message import Message
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit, urlunsplit

import penstock
from penstock.cli import UsageError
from penstock.errors import InvalidRequestError
from penstock.gateway.http.client_accent import HEADER as ACCENT_HEADER
from penstock.net import network_errors
from penstock.net.tls import supports_tls
from penstock.net.urls import is_loopback, is_private, read_address

_ERROR_BODY = 64 * 1024
_SHOWN = 300


class AnswerBody(Protocol):
    """The unread bytes of an answer."""

    def read(self, size: int, /) -> bytes: ...

    def read1(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class FetchedAnswer:
    """An HTTP answer: status, content type, and a body to read."""

    def __init__(self, body: AnswerBody, status: int, reason: str, headers: Message) -> None:
        self.body = body
        self.status = status
        self.content_type = (headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        self._reason = reason
        self._location = headers.get("Location") or ""

    def failure(self, secret: str = "") -> str:
        """Return the status of an error answer, with the server's message if there is one."""
        message = f"redirected to {self._location}" if self._location else self._error_message(secret)
        return f"HTTP {self.status} {self._reason}".rstrip() + (f": {message}" if message else "")

    def _error_message(self, secret: str) -> str:
        try:
            text = str(self.body.read(_ERROR_BODY), "utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return ""
        if secret:  # before the text is shortened, which could leave half a key
            text = text.replace(secret, "[key]")
        text = " ".join(_message_in(text).split())
        return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Report redirects instead of following them: that could send the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def endpoint(url: str) -> str:
    """Return the URL to post to: the given URL if it ends in /responses, else that path below it."""
    try:
        return read_address(url).url("responses")
    except InvalidRequestError as error:
        advice = ": use --api-key-env NAME instead" if "password" in error.message else ""
        raise UsageError(error.message + advice) from None


def display_url(url: str) -> str:
    """Return the URL without its query, which may contain a key."""
    return urlunsplit(urlsplit(url)._replace(query=""))


def post(url: str, *, model: str, prompt: str, key: str, accent: str, timeout: float) -> FetchedAnswer:
    """Send the request and return the HTTP answer, whatever its status; raise `UsageError` without one. The
    accent is in a header, which other servers than ours ignore; some of them refuse unknown parameters."""
    headers = {
        ACCENT_HEADER: accent,
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        "User-Agent": f"penstock/{penstock.__version__}",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps({"model": model, "input": prompt, "stream": True}).encode()
    return _send(url, headers, body, timeout)


def get(url: str, *, key: str, timeout: float) -> FetchedAnswer:
    """Request a JSON document, as `post` sends its request."""
    headers = {"Accept": "application/json", "User-Agent": f"penstock/{penstock.__version__}"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return _send(url, headers, None, timeout)


def _send(url: str, headers: dict[str, str], body: bytes | None, timeout: float) -> FetchedAnswer:
    try:
        request = urllib.request.Request(url, data=body, headers=headers)
        answer = _opener(urlsplit(url)).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = _reason(error, timeout, urlsplit(url))
        raise UsageError(f"no answer from {display_url(url)}: {reason}") from None
    return FetchedAnswer(answer, answer.status, answer.reason, answer.headers)


def _opener(parts: SplitResult) -> urllib.request.OpenerDirector:
    if is_loopback(parts.hostname or ""):
        return urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_NoRedirect)


def _reason(error: Exception, timeout: float, url: SplitResult) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"timed out after {timeout:g} seconds (use --timeout to wait longer)"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused. Is the server running, and is the port correct?"
    if isinstance(cause, ssl.SSLError) and network_errors.is_not_tls(cause):
        return network_errors.not_tls_message(url.netloc, is_private=is_private(url.hostname or ""))
    if isinstance(cause, (http.client.BadStatusLine, ConnectionResetError)) and _wants_tls(url):
        return network_errors.TLS_REQUIRED.format(place=url.netloc)
    if isinstance(cause, http.client.BadStatusLine) and not isinstance(cause, http.client.RemoteDisconnected):
        return "the server did not answer with HTTP: check the scheme and the port of the URL"
    if isinstance(cause, (http.client.InvalidURL, ValueError)):  # its text would repeat the URL's query
        return "the URL contains a character that must be percent-encoded"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause)


def _wants_tls(url: SplitResult) -> bool:
    return url.scheme == "http" and asyncio.run(supports_tls(url.hostname or "", url.port or 80))


def _message_in(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    for name in ("error", "message", "detail"):
        while isinstance(value, dict) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)
