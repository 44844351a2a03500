"""Turns through a gateway in this process."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from penstock.doctor.probe_turns import ProbeResult, open_probe_gateway
from penstock.gateway.settings import ClientKey, ModelRoute, RouteStep, Settings
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Script, Server, answer, cut, run, send, stall
from tests.doctor.model_server import ModelServer
from tests.gateway.upstream import begun, said, streamed


def result_of(server: Server, *, patience: float = 8.0, settings: Settings | None = None) -> ProbeResult:
    async def ask() -> ProbeResult:
        async with server:
            there = UpstreamTarget(name="t", base_url=f"{server.url}/v1")
            async with open_probe_gateway(
                settings or Settings(), there, "m-chat", patience=patience, environment={}
            ) as gateway:
                return await gateway.turn(input="Hi")

    return run(ask())


def test_an_answer_in_pieces() -> None:
    result = result_of(ModelServer())
    assert (result.code, result.violations) == ("", ())
    assert result.text == "one two three four five"
    assert result.deltas == 4
    assert result.arrivals > 1
    assert result.usage["output_tokens"] == 7


def test_an_answer_in_one_piece_arrives_once() -> None:
    result = result_of(Server(streamed(*said("All of it at once"))))
    assert result.deltas == 3
    assert result.arrivals == 1


FAILED: list[tuple[Script, str]] = [
    ([answer(401, {"error": {"message": "no"}})], "upstream_unauthorized"),
    ([answer(500, b"")], "server_error"),
    ([*begun(*said("cut")[:2]), cut], "upstream_truncated"),
]


@pytest.mark.parametrize(("script", "code"), FAILED)
def test_a_failure_before_or_after_the_first_output(script: Script, code: str) -> None:
    server = Server(script, [send(b"")])
    result = result_of(server)
    assert result.code == code
    assert result.message
    assert result.violations == ()
    assert len(server.asked) == 1  # a retry would hide the failure


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    result = result_of(Server([stall]), patience=0.01)
    assert result.code == "upstream_timeout"
    assert "0.01 seconds" in result.message


def test_keys_routes_and_limits_of_the_configuration_do_not_get_in_the_way() -> None:
    """Clients need a key, and the model has another name and another target first."""
    steps = (RouteStep("other", "x"), RouteStep("t", "m-chat"))
    settings = Settings(
        keys=(ClientKey(name="laptop", digest=b"x" * 32),),
        models={"m-chat": ModelRoute(name="m-chat", steps=steps)},
        aliases={"a": "m-chat"},
    )
    server = ModelServer()
    result = result_of(server, settings=replace(settings, default_model="a"))
    assert result.text
    assert [asked.json["model"] for asked in server.asked] == ["m-chat"]


def test_a_model_that_is_called_like_the_built_in_one_is_the_upstreams() -> None:
    async def ask() -> str:
        async with ModelServer() as server:
            there = UpstreamTarget(name="t", base_url=f"{server.url}/v1")
            async with open_probe_gateway(Settings(), there, "demo", patience=8.0, environment={}) as gateway:
                await gateway.turn(input="Hi")
            asked: str = server.asked[0].json["model"]
            return asked

    assert run(ask()) == "demo"


def test_the_built_in_model_needs_no_target() -> None:
    async def ask() -> ProbeResult:
        async with open_probe_gateway(Settings(), None, "demo", patience=8.0, environment={}) as gateway:
            return await gateway.turn(input="Say exactly: Hi")

    assert asyncio.run(ask()).text == "Hi"
