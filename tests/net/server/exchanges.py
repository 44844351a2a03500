"""Good and bad exchanges of a client with a server, by name: the bytes, in pieces as they arrive."""

from __future__ import annotations

from tests.net.server.attacks import ATTACKS, UNAMBIGUOUS

GET = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
_CHUNKED = "transfer-encoding: chunked"


def request(start: str, *lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([start, "host: x", *lines, "", ""]).encode("latin-1") + body


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def _methods() -> dict[str, list[bytes]]:
    found = {}
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
        start = f"{method} /a HTTP/1.1"
        found[f"{method} without a body"] = [request(start) + GET]
        found[f"{method} with a body"] = [request(start, "content-length: 2", body=b"ab") + GET]
        found[f"{method} of a stream"] = [request(f"{method} /stream HTTP/1.1") + GET]
    for method in ("get", "FOO", "G ET", "", "GET\t", "CONNECT"):
        found[f"method {method!r}"] = [request(f"{method} /a HTTP/1.1") + GET]
    return found


def _targets() -> dict[str, list[bytes]]:
    targets = [
        "/",
        "/a/b/../c",
        "/a%20b?c=%20d",
        "/a?b?c#d",
        "/a#b",
        "//other/x",
        "http://other/a?b",
        "http://other",
        "https://other:1/a",
        "*",
        "a",
        "?a",
        "/\xe4",
        "/a b",
        "/" + "x" * 5000,
        "/%zz%",
        "/a\tb",
    ]
    return {f"target {target[:20]}": [request(f"GET {target} HTTP/1.1") + GET] for target in targets}


def _versions() -> dict[str, list[bytes]]:
    found = {}
    for version in ("1.1", "1.0"):
        for value in ("", "close", "keep-alive", "Close", "te, close", "keep-alive, close"):
            lines = [f"connection: {value}"] if value else []
            for path in ("/a", "/stream"):
                name = f"HTTP/{version} {path} connection {value or 'unset'}"
                found[name] = [request(f"GET {path} HTTP/{version}", *lines) + GET]
    for version in ("HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/11", "HTTP/1", "http/1.1", "HTTPS/1.1", ""):
        found[f"version {version!r}"] = [request(f"GET /a {version}".rstrip()) + GET]
    return found


def _bodies() -> dict[str, list[bytes]]:
    found = {}
    for size in (0, 1, 1000, 70_000, 300_000):
        body = b"x" * size
        sized = request("POST /a HTTP/1.1", f"content-length: {size}", body=body)
        chunked = request("POST /a HTTP/1.1", _CHUNKED, body=chunks(*cut(body, 7000)))
        found[f"sized body of {size}"] = [sized + GET]
        found[f"chunked body of {size}"] = [chunked + GET]
        found[f"sized body of {size} in pieces"] = cut(sized + GET, 6000)
        found[f"chunked body of {size} in pieces"] = cut(chunked + GET, 6000)
        early = request("POST /early HTTP/1.1", f"content-length: {size}", body=body)
        found[f"early answer to a body of {size}"] = [early + GET]
        found[f"early answer to a body of {size} in pieces"] = cut(early + GET, 6000)
    found["half a body"] = [request("POST /a HTTP/1.1", "content-length: 5", body=b"hel")]
    found["half a chunk"] = [request("POST /a HTTP/1.1", _CHUNKED, body=b"5\r\nhel")]
    found["byte by byte"] = cut(request("POST /a HTTP/1.1", _CHUNKED, body=chunks(b"ab", b"c")) + GET, 1)
    found["trailers"] = [request("POST /a HTTP/1.1", _CHUNKED, body=b"1\r\nx\r\n0\r\na: b\r\n\r\n") + GET]
    for value in ("100-continue", "100-Continue", "other"):
        head = request("POST /a HTTP/1.1", "content-length: 2", f"expect: {value}")
        found[f"expect {value}, body later"] = [head, b"ab", GET]
        found[f"expect {value}, body at once"] = [head + b"ab" + GET]
        early = request("POST /early HTTP/1.1", "content-length: 2", f"expect: {value}")
        found[f"expect {value}, early answer"] = [early, b"ab", GET]
    return found


def _headers() -> dict[str, list[bytes]]:
    lines = {
        "no headers": [],
        "an empty value": ["x:"],
        "spaces around a value": ["x:  y \t"],
        "a latin-1 value": ["x: \xe4"],
        "a control character": ["x: a\x01b"],
        "a tab in a value": ["x: a\tb"],
        "a repeated header": ["x: 1", "X: 2"],
        "many headers": [f"x-{number}: y" for number in range(500)],
        "a long header": ["x: " + "y" * 30_000],
        "a colon in a value": ["x: a:b"],
        "two hosts": ["host: y"],
        "an offer of HTTP/2": ["connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AA"],
        "an offer of another protocol": ["connection: upgrade", "upgrade: foo/2"],
        "an unfinished upgrade": ["connection: upgrade"],
        "a name of symbols": ["!#$%&'*+-.^_`|~: y"],
        "a name with a space": ["a b: y"],
        "a name in brackets": ["(a): y"],
        "an empty name": [": y"],
    }
    found = {f"headers: {name}": [request("GET /a HTTP/1.1", *each) + GET] for name, each in lines.items()}
    body = request("POST /a HTTP/1.1", "connection: upgrade", "upgrade: h2c", "content-length: 2", body=b"ab")
    found["an offer of HTTP/2 with a body"] = [body + GET]
    return found


def _pipelines() -> dict[str, list[bytes]]:
    post = request("POST /a HTTP/1.1", "content-length: 2", body=b"ab")
    chunked = request("POST /stream HTTP/1.1", _CHUNKED, body=chunks(b"a"))
    return {
        "ten requests": [GET * 10],
        "ten requests in pieces": cut(GET * 10, 5),
        "mixed requests": [GET + post + chunked + GET],
        "mixed requests in pieces": cut(GET + post + chunked + GET, 11),
        "empty lines between requests": [GET + b"\r\n\r\n" + GET],
        "lines with LF between requests": [GET + b"\n" + GET],
        "garbage after a request": [GET + b"garbage\r\n\r\n" + GET],
        "garbage after a body": [post + b"ab" + GET],
        "a request after the last one": [request("GET /a HTTP/1.1", "connection: close") + GET],
        "nothing": [b"\r\n"],
        "half a head": [GET[:20]],
        "half a second head": [GET + GET[:20]],
        "a response without a body": [request("GET /empty HTTP/1.1") + GET],
        "TLS": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
        "the preface of HTTP/2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
        "a text": [b"hello\r\n\r\n"],
    }


EXCHANGES: dict[str, list[bytes]] = {
    **_methods(),
    **_targets(),
    **_versions(),
    **_bodies(),
    **_headers(),
    **_pipelines(),
    **{f"attack: {name}": [data] for name, data in ATTACKS.items()},
    **{f"unusual: {name}": [data] for name, data in UNAMBIGUOUS.items()},
}
