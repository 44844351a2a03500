"""Ask an endpoint for one small streamed response, with the standard library."""

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
from penstock.net import network_errors
from penstock.net.tls import speaks_tls
from penstock.net.urls import is_loopback, read_address

_ERROR_BODY = 64 * 1024
_SHOWN = 300


class AnswerBody(Protocol):
    """The bytes of an answer that are still to be read."""

    def read(self, size: int, /) -> bytes: ...

    def read1(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class FetchedAnswer:
    """What the endpoint said: the status, the type of the content, and a body to be read."""

    def __init__(self, body: AnswerBody, status: int, reason: str, headers: Message) -> None:
        self.body = body
        self.status = status
        self.content_type = (headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        self._reason = reason
        self._location = headers.get("Location") or ""

    def failure(self, secret: str = "") -> str:
        """The status of an answer that is no stream, and why, in the server's own words where it has any."""
        why = f"redirected to {self._location}" if self._location else self._error_message(secret)
        return f"HTTP {self.status} {self._reason}".rstrip() + (f": {why}" if why else "")

    def _error_message(self, secret: str) -> str:
        try:
            text = str(self.body.read(_ERROR_BODY), "utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return ""
        if secret:  # before anything is cut off: half a key is too much
            text = text.replace(secret, "[key]")
        text = " ".join(_message_in(text).split())
        return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer to be shown: following it could carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def endpoint(url: str) -> str:
    """Where to send the request: the URL itself when it ends in /responses, else what it is the base of."""
    try:
        return read_address(url).url("responses")
    except InvalidRequestError as error:
        advice = ": use --api-key-env NAME instead" if "password" in error.message else ""
        raise UsageError(error.message + advice) from None


def shown(url: str) -> str:
    """The URL without its query, which may hold a key."""
    return urlunsplit(urlsplit(url)._replace(query=""))


def ask(url: str, *, model: str, prompt: str, key: str, timeout: float) -> FetchedAnswer:
    """POST the request. Raises `UsageError` when there is no answer; every HTTP answer is returned."""
    headers = {
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        "User-Agent": f"penstock/{penstock.__version__}",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps({"model": model, "input": prompt, "stream": True}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        answer = _opener(urlsplit(url)).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UsageError(f"no answer from {shown(url)}: {_reason(error, timeout, urlsplit(url))}") from None
    return FetchedAnswer(answer, answer.status, answer.reason, answer.headers)


def _opener(parts: SplitResult) -> urllib.request.OpenerDirector:
    if is_loopback(parts.hostname or ""):
        return urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_NoRedirect)


def _reason(error: Exception, timeout: float, url: SplitResult) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"nothing came within {timeout:g} seconds (--timeout waits longer)"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused. Is the server running, and is the port right?"
    if isinstance(cause, ssl.SSLError) and network_errors.is_no_tls(cause):
        return network_errors.NO_TLS.format(place=url.netloc)
    if isinstance(cause, (http.client.BadStatusLine, ConnectionResetError)) and _wants_tls(url):
        return network_errors.WANTS_TLS.format(place=url.netloc)
    if isinstance(cause, http.client.BadStatusLine) and not isinstance(cause, http.client.RemoteDisconnected):
        return "what answered does not speak HTTP: check the scheme and the port of the URL"
    if isinstance(cause, (http.client.InvalidURL, ValueError)):  # whose text would repeat the URL's query
        return "the URL holds a character that must be percent-encoded"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause)


def _wants_tls(url: SplitResult) -> bool:
    return url.scheme == "http" and asyncio.run(speaks_tls(url.hostname or "", url.port or 80))


def _message_in(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    for name in ("error", "message", "detail"):
        while isinstance(value, dict) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)
