"""Which models a target lists, and why it cannot be used."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.upstream.reachability import TargetStatus, by_preference, check_target
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Script, Server, answer, run, stall

KEY = "sk-planted-0123456789"
LIST: Any = {"data": [{"id": "old"}, {"id": "text-embedding-3-small"}, {"id": "new"}]}


def check(*script: Any, limit: float = 5.0, **settings: Any) -> TargetStatus:
    """Return the status of a target that answers like this."""
    return run(_check(list(script), limit, settings))


async def _check(script: Script, limit: float, settings: dict[str, Any]) -> TargetStatus:
    async with Server(script) as server:
        base_url = f"{server.url}/v1?token={KEY}"
        status = await check_target(UpstreamTarget(name="mine", base_url=base_url, **settings), limit=limit)
        assert [(each.method, each.target.partition("?")[0]) for each in server.asked] == [
            ("GET", "/v1/models")
        ]
    assert KEY not in str(status)
    return status


def test_the_models_that_can_chat_are_listed() -> None:
    status = check(answer(200, LIST))
    assert status.models == ("old", "new")
    assert status.entries == LIST["data"]
    assert (status.problem, status.sentence, status.is_refused) == ("", "", False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"keys": (KEY,), "key_names": ("MY_KEY",)},
            "targets.mine refused the key in MY_KEY (HTTP 401): check its value",
        ),
        ({"keys": (KEY,)}, "targets.mine refused the key (HTTP 401): check its value"),
        ({"missing_key": "set MY_KEY"}, "targets.mine requires a key: set MY_KEY"),
        ({}, "targets.mine requires a key"),
        ({"pass_key": True, "missing_key": "set MY_KEY"}, ""),
    ],
)
def test_a_refused_key_is_named_by_its_variable(settings: dict[str, Any], sentence: str) -> None:
    status = check(answer(401, {"error": {"message": f"bad key {KEY}"}}), **settings)
    assert (status.sentence, status.is_refused) == (sentence, True)


@pytest.mark.parametrize(
    "step",
    [
        answer(404, {"error": {"message": "no list"}}),
        answer(403, {"error": {"message": "this key must not list models"}}),
        answer(500, b"broken"),
        answer(200, {"data": "nothing"}),
    ],
)
def test_a_server_without_a_list_can_be_reached(step: Any) -> None:
    assert check(step) == TargetStatus(target="mine")


def test_a_web_page_is_a_reason_to_check_the_address_unless_a_vendor_has_it() -> None:
    page = answer(200, b"<html></html>", "text/html")
    assert check(page).sentence == (
        "targets.mine has no list of models at its address, but a web page or something else: check base_url"
    )
    assert check(page, preset="groq").problem == ""


def test_an_empty_list_is_a_list() -> None:
    assert check(answer(200, {"object": "list", "data": None})).entries == []


def test_a_server_that_does_not_answer_cannot_be_reached() -> None:
    expected = (
        "targets.mine cannot be reached: no answer within 0.05 seconds. Check its address and the network"
    )
    assert check(stall, limit=0.05).sentence == expected


def test_a_port_without_a_server_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    target = UpstreamTarget(name="mine", base_url=f"http://127.0.0.1:{port}/v1?token={KEY}")
    assert run(check_target(target)).sentence == (
        f"targets.mine cannot be reached: could not connect to 127.0.0.1:{port}: connection refused. Is the "
        "server running, and is the port right?"
    )


def test_a_server_on_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert check(answer(200, LIST)).models == ("old", "new")


def test_a_vendors_examples_come_first_if_it_lists_them() -> None:
    assert by_preference("openai", ["gpt-4", "gpt-5-mini"]) == ("gpt-5-mini", "gpt-4")
    assert by_preference("openai", [])[0] == "gpt-5.5"
    assert by_preference("", ["a", "b"]) == ("a", "b")
    assert by_preference("llamacpp", []) == ()  # its row describes its models in words
