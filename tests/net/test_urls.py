"""URLs of endpoints and proxies."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRequestError
from penstock.net.urls import host_and_port, is_loopback, is_private, proxy_for, read_address, read_proxy


@pytest.mark.parametrize(
    ("url", "responses", "models"),
    [
        ("http://host", "http://host/v1/responses", "http://host/v1/models"),
        ("http://host/", "http://host/v1/responses", "http://host/v1/models"),
        (" http://host/v1\n", "http://host/v1/responses", "http://host/v1/models"),
        ("http://host:8080/v1/", "http://host:8080/v1/responses", "http://host:8080/v1/models"),
        ("https://host/v1/responses", "https://host/v1/responses", "https://host/v1/models"),
        ("https://host/v1/responses/", "https://host/v1/responses", "https://host/v1/models"),
        ("https://host/responses", "https://host/responses", "https://host/models"),
        (
            "https://host/api/openai/v1",
            "https://host/api/openai/v1/responses",
            "https://host/api/openai/v1/models",
        ),
        ("https://host/api", "https://host/api/responses", "https://host/api/models"),
        ("https://host/v1?api-version=1#x", "https://host/v1/responses?api-version=1", None),
        ("http://[::1]:8080", "http://[::1]:8080/v1/responses", "http://[::1]:8080/v1/models"),
    ],
)
def test_every_form_of_a_base_url_leads_to_the_endpoint(url: str, responses: str, models: str | None) -> None:
    address = read_address(url)
    assert address.url("responses") == responses
    assert models is None or address.url("models") == models


def test_an_id_is_escaped_as_one_path_segment() -> None:
    address = read_address("http://host/v1?api-version=1")
    assert address.url("responses", "a/b?c#d e%", "cancel") == (
        "http://host/v1/responses/a%2Fb%3Fc%23d%20e%25/cancel?api-version=1"
    )
    assert address.url("responses", "r", stream="true").endswith("/responses/r?api-version=1&stream=true")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "starts with http://"),
        ("host.example/v1", "starts with http://"),
        ("localhost:8080/v1", "starts with http://"),
        ("ftp://host/v1", "starts with http://"),
        ("http://", "has no host"),
        ("http://:80/v1", "has no host"),
        ("http://host:port", "is invalid"),
        ("http://[::1", "is invalid"),
        ("http://ho st/v1", "percent-encoded"),
        ("https://me:secret@host/v1", "password"),
        ("https://secret@host/v1", "user name"),
    ],
)
def test_an_invalid_url_is_refused_with_advice(url: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        read_address(url)
    assert (caught.value.code, caught.value.param) == ("invalid_base_url", "base_url")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("http://host/v1", ""),
        ("http://host/v1/responses", ""),
        ("http://host/v1beta", ""),
        ("http://host", "requests were sent to http://host/v1;"),
        ("http://host/api/", "perhaps it should be http://host/api/v1"),
        ("http://host/responses", "perhaps it should be http://host/v1"),
    ],
)
def test_a_url_without_a_version_has_advice(url: str, advice: str) -> None:
    found = read_address(url).advice
    assert advice in found
    assert bool(advice) == bool(found)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.255.3.4", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("api.localhost", True),
        ("notlocalhost", False),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::2", False),
        ("example.org", False),
    ],
)
def test_this_machine_is_recognized_by_name_and_address(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(host, True) for host in ("localhost", "127.0.0.1", "::1", "192.168.1.4", "10.0.0.1", "fd00::1")],
        *[(host, True) for host in ("ollama", "Box.local.", "host.docker.internal", "nas.home.arpa")],
        *[(host, False) for host in ("api.example.com", "8.8.8.8", "2001:4860::8888", "local.example")],
    ],
)
def test_a_private_host_is_recognized_by_its_name_or_address(host: str, expected: bool) -> None:
    assert is_private(host) is expected


ALL = {"HTTP_PROXY": "http://h:1", "HTTPS_PROXY": "http://s:2", "ALL_PROXY": "http://a:3"}


@pytest.mark.parametrize(
    ("url", "override", "environment", "authority"),
    [
        ("http://x.test", None, ALL, "h:1"),
        ("https://x.test", None, ALL, "s:2"),
        ("https://x.test", None, {"ALL_PROXY": "a:3"}, "a:3"),
        ("http://x.test", None, {"http_proxy": "http://low:1", **ALL}, "low:1"),
        ("http://x.test", None, {"http_proxy": "http://low:1", "REQUEST_METHOD": "GET", **ALL}, "low:1"),
        ("http://x.test", None, {"HTTP_PROXY": "http://h:1", "REQUEST_METHOD": "GET"}, None),
        ("http://x.test", None, {}, None),
        ("http://x.test", None, {"HTTP_PROXY": ""}, None),
        ("http://127.0.0.1:8080", None, ALL, None),
        ("https://[::1]:8080", None, ALL, None),
        ("http://localhost:8080", None, ALL, None),
        ("http://gate.localhost", None, ALL, None),
        ("http://x.test", "", ALL, None),
        ("http://x.test", "http://mine:9", ALL, "mine:9"),
        ("http://127.0.0.1:8080", "http://mine:9", {}, "mine:9"),
        ("https://x.test", "https://mine", {}, "mine:443"),
        ("http://x.test", "[::2]:9", {}, "[::2]:9"),
    ],
)
def test_the_proxy_comes_from_the_setting_or_the_environment(
    url: str, override: str | None, environment: dict[str, str], authority: str | None
) -> None:
    proxy = proxy_for(read_address(url), override, environment)
    assert (proxy.authority if proxy else None) == authority


@pytest.mark.parametrize(
    ("url", "exceptions", "is_excepted"),
    [
        ("http://x.test", "*", True),
        ("http://x.test", "x.test", True),
        ("http://x.test", " y.test , X.TEST ", True),
        ("http://api.x.test", "x.test", True),
        ("http://api.x.test", ".x.test", True),
        ("http://api.x.test", "*.x.test", True),
        ("http://apix.test", "x.test", False),
        ("http://x.test:81", "x.test:81", True),
        ("http://x.test", "x.test:81", False),
        ("https://x.test", "x.test:443", True),
        ("http://10.1.2.3", "10.0.0.0/8", True),
        ("http://11.1.2.3", "10.0.0.0/8", False),
        ("http://10.1.2.3", "10.1.2.3", True),
        ("http://10.1.2.3:81", "10.1.2.3:81", True),
        ("http://10.1.2.3", "1.2.3", False),
        ("http://[fd00::7]", "fd00::/8", True),
        ("http://[fd00::7]", "[fd00::7]", True),
        ("http://10.1.2.3", "no/network", False),
        ("http://x.test", ".", False),
        ("http://x.test", "", False),
    ],
)
def test_no_proxy_matches_hosts_domains_ports_and_networks(
    url: str, exceptions: str, is_excepted: bool
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        proxy = proxy_for(read_address(url), None, {**ALL, name: exceptions})
        assert (proxy is None) == is_excepted


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_an_invalid_proxy_of_a_variable_is_reported_with_its_name(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{name}: a socks5 proxy is not supported"):
        proxy_for(read_address("https://host.example"), None, {name: "socks5://secret@host:1"})


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("socks5://secret@host:1", "a socks5 proxy is not supported"),
        ("socks5h://host", "not supported"),
        ("http://", "is invalid"),
        ("http://secret@host:port", "is invalid"),
    ],
)
def test_an_invalid_proxy_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        read_proxy(url)
    assert caught.value.code == "unsupported_proxy"
    assert "secret" not in str(caught.value)


def test_a_password_for_a_proxy_is_sent_and_not_shown() -> None:
    proxy = read_proxy("http://me:p%40ss@host:3128")
    assert proxy.url == "http://host:3128"
    assert proxy.authorization == "Basic bWU6cEBzcw=="  # me:p@ss
    assert repr(proxy) == "Proxy('host:3128')"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://host", "host"),
        ("http://host:80", "host"),
        ("https://host:443/v1", "host"),
        ("http://host:443", "host:443"),
        ("https://host:8443", "host:8443"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("http://[::1]", "[::1]"),
        ("http://m\u00fcnchen.example", "xn--mnchen-3ya.example"),
    ],
)
def test_the_host_header_has_the_port_unless_it_is_the_default(url: str, host: str) -> None:
    assert read_address(url).host_header == host


def test_an_impossible_host_name_is_still_sent_in_ascii() -> None:
    assert host_and_port("\u00fc" * 70, 443).isascii()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://host:1/v1/models?a=b&c=%20", "/v1/models?a=b&c=%20"),
        ("http://host:1", "/"),
        ("http://host:1?a=b", "/?a=b"),
        ("http://host:1/v1#part", "/v1"),
        ("http://host:1/\u00fc/{a}?q=\u00fc", "/%C3%BC/%7Ba%7D?q=%C3%BC"),
        ("http://host:1/a\r\nb: c", "/a%0D%0Ab:%20c"),
        ("http://host:1/v1/models/gemini:stream?alt=sse", "/v1/models/gemini:stream?alt=sse"),
    ],
)
def test_the_target_of_a_request_is_escaped(url: str, target: str) -> None:
    assert read_address("http://host:1").request_target(url) == target


@pytest.mark.parametrize("url", ["http://host:12/", "https://host:1/", "http://other:1/", "/v1"])
def test_a_url_of_another_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="another server"):
        read_address("http://host:1").request_target(url)
