"""What a client sends over a WebSocket, and errors outside a response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import ResponseSteerFailedEvent
from openai.types.responses.responses_server_event import ResponseWsError

from penstock.gateway.api.websocket_frames import (
    IGNORED,
    FrameAddress,
    address_of,
    envelope,
    read_create,
    steer_failed,
    steered_response,
)
from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import Limits


@pytest.mark.parametrize(
    ("frame", "address"),
    [
        ('{"type": "response.create", "input": [[{"stream_id": "b"}]]}', FrameAddress("response.create")),
        ('{"stream_id": "a", "type": "response.steer"}', FrameAddress("response.steer", "a")),
        ('{"type": "response.create", "stream_id": 7}', FrameAddress("response.create", 7)),
        ("[]", FrameAddress()),
        ("", FrameAddress()),
        ('{"type": ', FrameAddress()),
        ("[" * 100_000, FrameAddress()),
        ('{"a": ' + "[" * 100_000, FrameAddress()),
    ],
)
def test_the_address_of_a_frame(frame: str, address: FrameAddress) -> None:
    assert address_of(frame) == address


def test_fields_of_http_are_ignored_with_a_diagnostic_and_the_lane_is_no_field() -> None:
    """Decision 31."""
    fields = {"stream": True, "stream_options": {"a": 1}, "background": False, "stream_id": "a"}
    frame = {"type": "response.create", "model": "m", "input": "x", **fields}
    create = read_create(json.dumps(frame), Limits())
    assert [each.param for each in create.diagnostics] == list(IGNORED)
    assert not create.request.extra
    assert not create.request.stream
    assert not create.request.background


def test_a_frame_of_another_type_is_refused_with_what_to_do() -> None:
    with pytest.raises(RequestRefused, match="/cancel") as caught:
        read_create('{"type": "response.cancel"}', Limits())
    assert (caught.value.status, caught.value.param) == (400, "type")


@pytest.mark.parametrize("stream_id", ["", "lane-1"])
def test_an_envelope_is_what_openai_python_expects(stream_id: str) -> None:
    refused = RequestRefused(429, "rate_limit_exceeded", "slowly", headers=[("retry-after", "7")])
    raw = json.loads(envelope(refused, stream_id))
    parsed = ResponseWsError.model_validate(raw)
    assert (parsed.error.code, parsed.status, parsed.stream_id) == (
        "rate_limit_exceeded",
        429,
        stream_id or None,
    )
    assert raw["headers"] == {"retry-after": "7"}
    assert ("stream_id" in raw) == bool(stream_id)


@pytest.mark.parametrize("stream_id", ["", "lane-1"])
@pytest.mark.parametrize("input", ["stop", [{"type": "message", "role": "user", "content": "stop"}]])
def test_a_refused_steering_is_what_openai_python_expects(input: Any, stream_id: str) -> None:
    raw = json.loads(steer_failed("resp_1", input, stream_id))
    parsed = ResponseSteerFailedEvent.model_validate(raw)
    assert (parsed.error.code, parsed.steer.previous_response_id) == ("steering_not_supported", "resp_1")
    assert raw["steer"]["input"] == input
    assert parsed.stream_id == (stream_id or None)


def test_the_response_of_a_steering_may_be_missing() -> None:
    steer = {"type": "response.steer", "previous_response_id": "resp_1", "input": "x"}
    assert steered_response(json.dumps(steer)) == ("resp_1", "x")
    assert steered_response('{"type": "response.steer", "previous_response_id": 7}') == ("", "")
