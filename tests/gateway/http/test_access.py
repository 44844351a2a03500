"""Who may use the gateway: keys of clients, keys for the upstream, and web pages."""

from __future__ import annotations

import hmac
import json
import tomllib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.gateway.config.file import read_settings
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http import access
from penstock.gateway.http.access import authenticate, check_origin, client_key_of, create_key, is_exposed
from penstock.gateway.settings import ClientKey, Settings
from tests.client.server import in_a_thread
from tests.effort import examples
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed

LAPTOP = "pk_" + "l" * 43


CI = "pk_" + "c" * 43


def key(name: str, token: str) -> ClientKey:
    return ClientKey(name=name, digest=sha256(token.encode()).digest())


OPEN = Settings()


CLOSED = Settings(keys=(key("laptop", LAPTOP), key("ci", CI)))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        (bearer(LAPTOP), "laptop"),
        (bearer(CI), "ci"),
        ({"x-api-key": CI}, "ci"),
        ({"authorization": f"bEARER   {LAPTOP} "}, "laptop"),
        ({**bearer("sk-upstream"), "x-api-key": LAPTOP}, "laptop"),
        ({**bearer(CI), "x-api-key": "sk-upstream"}, "ci"),
    ],
)
def test_a_key_is_accepted_as_bearer_or_x_api_key(headers: dict[str, str], name: str) -> None:
    found = authenticate(CLOSED, headers)
    assert found is not None
    assert found.name == name


def test_without_keys_no_client_needs_one() -> None:
    assert authenticate(OPEN, {}) is None
    assert authenticate(OPEN, bearer("anything")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": LAPTOP},
        {"authorization": f"Basic {LAPTOP}"},
        bearer(""),
        bearer(LAPTOP[:-1]),
        bearer(LAPTOP + "x"),
        bearer(LAPTOP.upper()),
        bearer("caf\xe9 \udce9"),
        {"x-api-key": sha256(LAPTOP.encode()).hexdigest()},
    ],
    ids=repr,
)
def test_a_client_without_a_key_gets_an_error_of_the_specification(headers: dict[str, str]) -> None:
    with pytest.raises(RequestRefused) as caught:
        authenticate(CLOSED, headers)
    refused = caught.value
    assert refused.status == 401
    assert refused.headers == (("www-authenticate", "Bearer"),)
    body = json.loads(refused.body())
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == ("invalid_request", "authentication_error")
    for value in headers.values():
        assert len(value) < 20 or value.split()[-1] not in refused.message


def test_every_key_is_compared_even_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return hmac.compare_digest(one, other)

    monkeypatch.setattr("penstock.gateway.http.access.compare_digest", compare)
    for token in (LAPTOP, CI, "neither"):
        compared.clear()
        with suppress(RequestRefused):
            authenticate(CLOSED, bearer(token))
        assert compared == [each.digest for each in CLOSED.keys]


@pytest.mark.parametrize(
    ("settings", "headers", "expected"),
    [
        (OPEN, {}, ""),
        (OPEN, bearer("sk-up"), "sk-up"),
        (OPEN, {"x-api-key": "sk-up"}, "sk-up"),
        (OPEN, {**bearer("sk-one"), "x-api-key": "sk-two"}, "sk-one"),
        (CLOSED, bearer(LAPTOP), ""),
        (CLOSED, {"x-api-key": LAPTOP}, ""),
        (CLOSED, {**bearer("sk-up"), "x-api-key": LAPTOP}, "sk-up"),
        (CLOSED, {**bearer(LAPTOP), "x-api-key": "sk-up"}, "sk-up"),
        (CLOSED, {**bearer(LAPTOP), "x-api-key": CI}, ""),
        # A gateway key that was removed must not be sent to an upstream either.
        (OPEN, bearer(LAPTOP), ""),
        (CLOSED, {**bearer(LAPTOP), "x-api-key": "pk_" + "o" * 43}, ""),
    ],
)
def test_the_key_for_the_upstream_is_never_one_of_ours(
    settings: Settings, headers: dict[str, str], expected: str
) -> None:
    assert client_key_of(settings, headers) == expected


@given(st.text(max_size=60), st.text(max_size=60))
@effort(max_examples=examples(200))
def test_no_header_lets_anybody_in_or_breaks_anything(authorization: str, api_key: str) -> None:
    headers = {"authorization": authorization, "x-api-key": api_key}
    with pytest.raises(RequestRefused):
        authenticate(CLOSED, headers)
    client_key_of(CLOSED, headers)


def refusal(settings: Settings, host: str | None, origin: str | None = None, port: int = 8080) -> str:
    """The code of the refusal; empty if there is none."""
    try:
        check_origin(settings, host, origin, port)
    except RequestRefused as refused:
        return refused.code if refused.status == 403 else f"with {refused.status}"
    return ""


OURS = [
    *("localhost", "localhost:8080", "LOCALHOST:1", "localhost.", "a.localhost:80"),
    *("127.0.0.1", "127.0.0.1:8080", "127.1.2.3", "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]:1"),
]


STRANGE = [
    *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "192.168.0.5:8080"),
    *("", "[::2]", "::1", "[::1", "localhost@evil.example", "evil.example/localhost", "localhost:80:80"),
    *("localhost evil.example", "0.0.0.0", "localhost\\evil", "[localhost]", "localhost:x", ":8080"),
]


@pytest.mark.parametrize("host", OURS)
def test_local_host_names_are_allowed(host: str) -> None:
    assert refusal(OPEN, host) == ""


@pytest.mark.parametrize("host", [*STRANGE, None])
def test_other_host_names_are_refused_without_keys(host: str | None) -> None:
    assert refusal(OPEN, host) == "permission_denied"
    assert refusal(CLOSED, host) == ""  # a page does not know the key


def test_the_bound_host_and_allowed_hosts_are_allowed() -> None:
    settings = Settings(host="192.168.0.5", allowed_hosts=("gateway.example", "::2"))
    assert refusal(settings, "192.168.0.5:8080") == ""
    assert refusal(settings, "Gateway.Example:443") == ""
    assert refusal(settings, "[0::2]") == ""
    assert refusal(settings, "sub.gateway.example") == "permission_denied"
    assert refusal(Settings(host="::1"), "[::1]:8080") == ""


ALLOWED = Settings(allowed_origins=("https://app.example", "vscode-webview://abc", "http://localhost:3000"))


@pytest.mark.parametrize(
    ("settings", "host", "origin", "code"),
    [
        (OPEN, "localhost:8080", "http://localhost:8080", ""),
        (OPEN, "LOCALHOST:8080", "http://localhost:8080", ""),
        (OPEN, "[::1]:8080", "http://[::1]:8080", ""),
        (OPEN, "localhost", "http://localhost", ""),
        (OPEN, "localhost", "http://localhost:8080", ""),  # a proxy that leaves the port out
        (OPEN, "localhost:8080", "http://localhost:3000", "permission_denied"),
        (OPEN, "localhost", "http://localhost:3000", "permission_denied"),
        (OPEN, "localhost:8080", "http://127.0.0.1:8080", "permission_denied"),
        (OPEN, "localhost:8080", "http://localhost", "permission_denied"),
        (OPEN, "localhost:8080", "https://evil.example", "permission_denied"),
        (OPEN, "localhost:8080", "null", "permission_denied"),
        (OPEN, "localhost:8080", "", "permission_denied"),
        (OPEN, "localhost:8080", "file://", "permission_denied"),
        (OPEN, "localhost:8080", "ftp://localhost:8080", "permission_denied"),
        (OPEN, "localhost:8080", "http://localhost:8080/", "permission_denied"),
        (OPEN, "localhost:8080", "http://localhost:8080@evil.example", "permission_denied"),
        (CLOSED, "gw.example", "https://evil.example", "permission_denied"),
        (CLOSED, "gw.example", "null", "permission_denied"),
        (CLOSED, "gw.example", "https://gw.example", ""),  # behind a proxy with TLS
        (CLOSED, "", "https://", "permission_denied"),
        (ALLOWED, "localhost:8080", "https://app.example", ""),
        (ALLOWED, "localhost:8080", "https://APP.example:443", ""),
        (ALLOWED, "localhost:8080", "http://localhost:3000", ""),
        (ALLOWED, "localhost:8080", "vscode-webview://abc", ""),
        (ALLOWED, "localhost:8080", "http://app.example", "permission_denied"),
        (ALLOWED, "localhost:8080", "https://sub.app.example", "permission_denied"),
        (ALLOWED, "evil.example", "https://app.example", "permission_denied"),
    ],
)
def test_a_web_page_must_have_an_allowed_or_local_origin(
    settings: Settings, host: str, origin: str, code: str
) -> None:
    assert refusal(settings, host, origin) == code


@given(st.text("localhst:80127.[]@/\\ evil", max_size=24), st.text("http:/[]@localhst80.null*", max_size=24))
@effort(max_examples=examples(300))
def test_whatever_the_headers_say_it_is_allowed_or_refused(host: str, origin: str) -> None:
    assert refusal(OPEN, host, origin) in ("", "permission_denied")


def test_a_new_key_matches_its_own_entry_only() -> None:
    token, entry = create_key('Ann\'s "laptop" \\ é')
    other, _ = create_key("b")
    assert access.KEY.fullmatch(token)
    assert token != other
    assert token not in entry
    settings = read_settings(entry, file="penstock.toml", environment={})
    found = authenticate(settings, bearer(token))
    assert found is not None
    assert found.name == 'Ann\'s "laptop" \\ é'
    assert tomllib.loads(entry)["keys"][0].keys() == {"name", "hash"}
    with pytest.raises(RequestRefused):
        authenticate(settings, bearer(other))


def test_a_key_shows_only_its_name() -> None:
    assert repr(key("laptop", LAPTOP)) == "ClientKey('laptop')"


@pytest.mark.parametrize(
    ("host", "exposed"),
    [
        ("127.0.0.1", False),
        ("localhost", False),
        ("::1", False),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.1", True),
    ],
)
def test_an_exposed_gateway_needs_keys(host: str, exposed: bool) -> None:
    assert is_exposed(Settings(host=host)) is exposed
    assert not is_exposed(Settings(host=host, keys=CLOSED.keys))


def refused_at(now: float, token: str, key: ClientKey) -> str:
    """Return why a token is refused at a time; empty if it is not."""
    try:
        authenticate(Settings(keys=(key,)), bearer(token), lambda: now)
    except RequestRefused as refused:
        return f"{refused.status} {refused.message}"
    return ""


def test_the_refusal_of_an_expired_key_says_so_and_that_of_a_wrong_one_does_not() -> None:
    key = ClientKey(name="a", digest=sha256(b"pk_now").digest(), expires_at=100.0)
    assert not refused_at(99.9, "pk_now", key)
    assert "401 this key expired at 1970-01-01 00:01 UTC: ask" in refused_at(100.0, "pk_now", key)
    assert "does not know" in refused_at(100.0, "pk_wrong", key)


def test_a_rotated_key_is_accepted_until_its_grace_ends() -> None:
    old, new = sha256(b"pk_old").digest(), sha256(b"pk_new").digest()
    key = ClientKey(name="a", digest=new, previous_digest=old, previous_until=100.0)
    assert not refused_at(99.0, "pk_old", key)
    assert "expired" in refused_at(100.0, "pk_old", key)
    assert not refused_at(100.0, "pk_new", key)
    early = replace(key, expires_at=50.0)
    assert [bool(refused_at(now, "pk_old", early)) for now in (49.0, 50.0)] == [False, True]


BODY = {"model": "demo", "input": "say exactly: hello"}


@pytest.mark.e2e
def test_with_keys_other_clients_are_refused(tmp_path: Path) -> None:
    key, entry = create_key("laptop")
    scripted = ScriptedUpstream()
    config = entry + '\n[targets.own]\nbase_url = "{url}/v1"\npass_key = true\n[models.m]\ntarget = "own"\n'
    with in_a_thread(scripted), gateway(tmp_path, config=config.format(url=scripted.url)) as running:
        for headers in ({}, {"authorization": f"Bearer {SECRET_KEY}"}, {"x-api-key": "pk_wrong"}):
            for path, method in (("/v1/responses", "POST"), ("/v1/models", "GET"), ("/metrics", "GET")):
                reply = running.ask(BODY, path, method=method, headers=headers)
                assert (reply.status, reply.error["code"]) == (401, "authentication_error")
                assert reply.headers["www-authenticate"].startswith("Bearer")
        assert running.ask(path="/healthz", method="GET").status == 200
        for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
            reply = running.whole("demo", headers=headers)
            assert running.verdict(reply.headers["x-request-id"])["client"] == "laptop"
        scripted.play("m", streamed(*said("ok")))
        running.whole("m", headers={"x-api-key": key, "authorization": "Bearer sk-upstream"})
        assert scripted.asked_for("m")[0].headers["authorization"] == "Bearer sk-upstream"
        assert key not in json.dumps(running.log)


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}],
)
def test_no_web_page_can_drive_a_local_gateway(penstock: Running, headers: dict[str, str]) -> None:
    reply = penstock.ask(BODY, headers=headers)
    assert (reply.status, reply.error["code"]) == (403, "permission_denied")
    assert penstock.ask(path="/v1/responses", method="OPTIONS", headers=headers).status == 403


@pytest.mark.e2e
def test_a_page_of_an_allowed_origin_may_ask_and_read(tmp_path: Path) -> None:
    with gateway(tmp_path, config='[server]\nallowed_origins = ["https://app.example"]\n') as running:
        origin = {"origin": "https://app.example"}
        before = running.ask(path="/v1/responses", method="OPTIONS", headers=origin)
        assert before.status == 204
        assert "authorization" in before.headers["access-control-allow-headers"]
        assert (
            running.whole("demo", headers=origin).headers["access-control-allow-origin"] == origin["origin"]
        )
        assert (
            running.whole("nobody", headers=origin).headers["access-control-allow-origin"] == origin["origin"]
        )
