"""Requests are parsed, and errors name the invalid field."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DecodeError
from penstock.parts.parts import ChatMessage, ChatTool, TextPart, ThinkingPart
from penstock.provider.editor_turn import HostSettings
from penstock.provider.host.requests import (
    CancelRequest,
    ConfigureRequest,
    CountTokensRequest,
    ForgetLimitsRequest,
    ModelsRequest,
    RespondRequest,
    UsageRequest,
    id_of,
    read_request,
)

SETTINGS: dict[str, Any] = {
    "thinking": "text",
    "citations": "end",
    "errors_as_text": True,
    "system_role": "developer",
}
HELLO = {"role": 1, "content": [{"type": "text", "value": "Hello"}]}


def test_every_method_is_parsed() -> None:
    assert read_request({"method": "models", "group": "g", "refresh": True}) == ModelsRequest("g", True)
    assert read_request({"method": "models", "group": None}) == ModelsRequest("", False)
    assert read_request({"method": "cancel", "request": "r"}) == CancelRequest("r")
    assert read_request({"method": "usage", "later": 1}) == UsageRequest()
    assert read_request({"method": "forget_limits", "group": "g"}) == ForgetLimitsRequest("g", None)
    some = read_request({"method": "forget_limits", "models": ["m"]})
    assert some == ForgetLimitsRequest(None, ["m"])
    counted = read_request({"method": "count_tokens", "model": "m", "message": HELLO})
    assert counted == CountTokensRequest("", "m", ChatMessage(1, [TextPart("Hello")]))
    configured = read_request(
        {"method": "configure", "endpoint": " http://x ", "key": "k\n", "account": "a1", **SETTINGS}
    )
    assert configured == ConfigureRequest(
        endpoint="http://x", key="k", settings=HostSettings(**SETTINGS), account="a1"
    )
    assert read_request({"method": "configure", "thinking": None}) == ConfigureRequest()


def test_a_respond_request_has_tools_and_options() -> None:
    thinking = {"type": "thinking", "value": "hm", "thinking_id": "t", "metadata": {"a": 1}}
    request = read_request(
        {
            "method": "respond",
            "group": "g",
            "model": "m",
            "messages": [HELLO, {"role": 2, "content": [thinking]}],
            "tools": [{"name": "look", "description": "d", "schema": {"type": "object"}}, {"name": "go"}],
            "tool_mode": 2,
            "options": {"reasoning_effort": "low"},
            **SETTINGS,
        }
    )
    assert isinstance(request, RespondRequest)
    assert request.settings == HostSettings(**SETTINGS)
    assert request.messages[1].content == [ThinkingPart("hm", "t", {"a": 1})]
    assert request.options.tools == [ChatTool("look", "d", {"type": "object"}), ChatTool("go")]
    assert (request.options.tool_mode, request.options.model_options) == (2, {"reasoning_effort": "low"})


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ({}, "method"),
        ({"method": 1}, "method"),
        ({"method": "explode"}, "method"),
        ({"method": "models", "group": 1}, "group"),
        ({"method": "configure", "thinking": "loud"}, "thinking"),
        ({"method": "configure", "citations": "margin"}, "citations"),
        ({"method": "configure", "citations": True}, "citations"),
        ({"method": "configure", "errors_as_text": "yes"}, "errors_as_text"),
        ({"method": "configure", "errors_as_text": 1}, "errors_as_text"),
        ({"method": "configure", "system_role": "user"}, "system_role"),
        ({"method": "respond", "model": "m", "citations": "margin"}, "citations"),
        ({"method": "respond", "model": "m", "errors_as_text": "yes"}, "errors_as_text"),
        ({"method": "respond", "model": "m", "system_role": []}, "system_role"),
        ({"method": "configure", "headers": []}, "headers"),
        ({"method": "configure", "headers": {"a": 1}}, "headers"),
        ({"method": "configure", "account": 7}, "account"),
        ({"method": "respond"}, "model"),
        ({"method": "respond", "model": "m", "thinking": "loud"}, "thinking"),
        ({"method": "respond", "model": "m", "messages": {}}, "messages"),
        ({"method": "respond", "model": "m", "messages": [{"role": "user"}]}, "messages[0].role"),
        (
            {
                "method": "respond",
                "model": "m",
                "messages": [HELLO, {"role": 1, "content": [{"type": "no"}]}],
            },
            "messages[1].content[0].type",
        ),
        ({"method": "respond", "model": "m", "tools": [1]}, "tools[0]"),
        ({"method": "respond", "model": "m", "tools": [{}]}, "tools[0].name"),
        ({"method": "respond", "model": "m", "tools": [{"name": "a", "schema": 1}]}, "tools[0].schema"),
        ({"method": "respond", "model": "m", "tool_mode": True}, "tool_mode"),
        ({"method": "respond", "model": "m", "options": []}, "options"),
        ({"method": "cancel"}, "request"),
        ({"method": "forget_limits", "models": "m"}, "models"),
        ({"method": "forget_limits", "models": [1]}, "models"),
        ({"method": "count_tokens", "model": "m"}, "text"),
        ({"method": "count_tokens", "model": "m", "message": "x"}, "message"),
    ],
)
def test_an_invalid_field_is_named(raw: dict[str, Any], param: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_request(raw)
    assert caught.value.param == param


@pytest.mark.parametrize("id", [True, [], {}, False])
def test_an_id_is_a_string_or_a_number(id: Any) -> None:
    assert (id_of({"id": "a"}), id_of({"id": 0}), id_of({"id": 1.5}), id_of({})) == ("a", 0, 1.5, None)
    with pytest.raises(DecodeError):
        id_of({"id": id})


def test_a_configuration_does_not_show_its_secrets() -> None:
    request = ConfigureRequest(endpoint="http://x/?key=sesame", key="sesame", headers={"x-key": "sesame"})
    assert "sesame" not in repr(request)
    assert "x-key" in repr(request)
