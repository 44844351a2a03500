"""The checks of proxies."""

from __future__ import annotations

import socket

from penstock.doctor.findings import Finding
from penstock.doctor.proxies import check_proxies
from penstock.gateway.settings import Settings
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Server, run

PUBLIC = UpstreamTarget(name="public", base_url="https://llm.example/v1")
LOCAL = UpstreamTarget(name="local", base_url="http://127.0.0.1:11434/v1")


def checked(
    environment: dict[str, str], *targets: UpstreamTarget, settings: Settings | None = None
) -> list[Finding]:
    return run(check_proxies(settings or Settings(), targets, environment))


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_no_proxy() -> None:
    (found,) = checked({}, PUBLIC, LOCAL)
    assert (found.status, found.sentence) == ("ok", "no proxy is used for public, local")


def test_a_proxy_that_can_be_reached_is_named_with_its_targets() -> None:
    async def check() -> list[Finding]:
        async with Server() as server:
            return await check_proxies(Settings(), [PUBLIC, LOCAL], {"HTTPS_PROXY": server.url})

    (found,) = run(check())
    assert (found.status, found.details["targets"]) == ("ok", ["public"])


def test_a_dead_proxy_is_a_problem_and_its_password_is_not_shown() -> None:
    port = closed_port()
    (found,) = checked({"https_proxy": f"http://me:quetzal@127.0.0.1:{port}"}, PUBLIC, LOCAL)
    assert found.status == "problem"
    assert f"127.0.0.1:{port} is used for public, but could not connect" in found.sentence
    assert "quetzal" not in str(found)


def test_a_dead_proxy_that_no_target_uses_is_not_dialled() -> None:
    found = checked({"HTTPS_PROXY": f"http://127.0.0.1:{closed_port()}"}, LOCAL)
    assert [each.status for each in found] == ["ok"]


def test_a_proxy_that_captures_the_gateway_is_named() -> None:
    found = checked({"HTTP_PROXY": "http://127.0.0.1:9"}, LOCAL)[-1]
    assert (found.id, found.status) == ("loopback", "warning")
    assert "HTTP_PROXY is set, but NO_PROXY lacks 127.0.0.1 and localhost" in found.sentence
    assert found.fix == "export NO_PROXY=127.0.0.1,localhost"


def test_what_no_proxy_has_is_kept() -> None:
    found = checked({"ALL_PROXY": "http://127.0.0.1:9", "no_proxy": "a.example, localhost"}, LOCAL)[-1]
    assert found.fix == "export NO_PROXY=127.0.0.1,$NO_PROXY"


def test_a_network_in_no_proxy_is_not_enough_for_httpx() -> None:
    found = checked({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.0/8,localhost"}, LOCAL)[-1]
    assert found.details["missing"] == ["127.0.0.1"]


def test_an_excepted_gateway_is_fine() -> None:
    for exceptions in ("127.0.0.1,localhost", "*"):
        found = checked({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": exceptions}, LOCAL)[-1]
        assert (found.id, found.status) == ("loopback", "ok")


def test_only_a_proxy_for_the_scheme_of_the_gateway_captures_it() -> None:
    assert [each.id for each in checked({"HTTPS_PROXY": "http://127.0.0.1:9"}, LOCAL)] == ["proxy"]
    tls = Settings(tls_cert="cert.pem")
    found = checked({"HTTPS_PROXY": "http://127.0.0.1:9"}, LOCAL, settings=tls)
    assert [each.id for each in found] == ["proxy", "loopback"]
