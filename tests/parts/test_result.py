"""Every stream ends in an answer or a typed error (ask N1)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import (
    InvalidRequestError,
    OpenResponsesError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.parts.result import finish_of, has_message, no_answer
from tests.parts.adapted import adapt
from tests.parts.events import (
    JSON,
    call,
    completed,
    event,
    failed,
    incomplete,
    item_done,
    message,
    reasoning,
    reasoning_delta,
    response_ended,
    text_delta,
)
from tests.parts.expected import (
    ADD,
    EMPTY,
    ERROR_EVENT,
    FAILED,
    RATE_LIMIT,
    SERVER_ERROR,
    TRUNCATED,
    Expected,
)
from tests.parts.stream_changes import Events

# Thinking


REASONING_ITEM = reasoning("rs", "Hm", encrypted_content="sealed")


@pytest.mark.parametrize("thinking", ["part", "text", "none"])
def test_thinking_alone_is_not_an_answer(thinking: str) -> None:
    found = adapt(
        [reasoning_delta("rs", "Hm"), item_done(REASONING_ITEM), completed(REASONING_ITEM)], thinking=thinking
    )
    assert found.error == EMPTY
    assert "only reasoning" in str(found.result.error)


# Ends


ENDS: dict[str, tuple[Events, Expected]] = {
    "an error that without a message, then the reason": (
        [{"type": "error"}, failed("rate_limit_exceeded", "slow down")],
        Expected(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "an error with a message, then another error": (
        [
            {"type": "error", "message": "slow down", "code": "rate_limit_exceeded"},
            failed("server_error", "x"),
        ],
        Expected(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "an error without a message, and nothing else": (
        [{"type": "error"}, event("failed")],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "completed without output": ([completed()], Expected(error=EMPTY, finish="error")),
    "completed, without a response": ([event("completed")], Expected(error=EMPTY, finish="error")),
    "completed, with a response that is not an object": (
        [event("completed", response="resp_1")],
        Expected(error=EMPTY, finish="error"),
    ),
    "completed, with an empty message": (
        [completed(message("m", ""))],
        Expected(error=EMPTY, finish="error"),
    ),
    "completed, without a response, after text": (
        [text_delta("m", "Hi"), event("completed")],
        Expected(text="Hi"),
    ),
    "completed, and its response failed": (
        [
            text_delta("m", "Hi"),
            event(
                "completed", response={"status": "failed", "error": {"code": "server_error", "message": "x"}}
            ),
        ],
        Expected(text="Hi", error=SERVER_ERROR, finish="error"),
    ),
    "failed, and its response is completed": (
        [text_delta("m", "Hi"), event("failed", response={"id": "r", "status": "completed", "error": None})],
        Expected(text="Hi", error=SERVER_ERROR, finish="error"),
    ),
    "failed, without a reason": (
        [event("failed", response={"id": "r", "status": "failed", "error": None})],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "failed, without a response": ([event("failed")], Expected(error=SERVER_ERROR, finish="error")),
    "failed, with the error in the event": (
        [event("failed", error={"code": "rate_limit_exceeded", "message": "Slow"})],
        Expected(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "failed, and only the response has the call": (
        [
            response_ended(
                "failed", [call("fc_1", "add", "{}")], error={"code": "server_error", "message": "x"}
            )
        ],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "failed after text": (
        [text_delta("m", "Hi"), FAILED],
        Expected(text="Hi", error=SERVER_ERROR, finish="error"),
    ),
    "an error with a vendor-specific code": (
        [
            {
                "type": "error",
                "error": {"code": "acme_17", "message": "Too many requests", "type": "too_many_requests"},
            }
        ],
        Expected(error=(RateLimitError, "acme_17"), finish="error"),
    ),
    "an error as a string": (
        [{"type": "error", "error": "boom"}],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "an error without a message": ([{"type": "error"}], Expected(error=SERVER_ERROR, finish="error")),
    "an error, then failed with another": (
        [ERROR_EVENT, failed("rate_limit_exceeded", "Slow")],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "an error, then completed": (
        [text_delta("m", "Hi"), ERROR_EVENT, completed(message("m", "Hi"))],
        Expected(text="Hi", error=SERVER_ERROR, finish="error"),
    ),
    "incomplete without output": (
        [incomplete("max_output_tokens")],
        Expected(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "incomplete with only thinking": (
        [reasoning_delta("rs", "Hm"), incomplete("max_output_tokens", reasoning("rs", "Hm"))],
        Expected(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "incomplete, and only the response has text": (
        [incomplete("max_output_tokens", message("m", "Hi"))],
        Expected(text="Hi", finish="length"),
    ),
    "incomplete, without a reason": (
        [response_ended("incomplete")],
        Expected(error=(ProtocolError, "incomplete"), finish="incomplete"),
    ),
    "incomplete, for a vendor-specific reason": (
        [text_delta("m", "Hi"), incomplete("max_tool_calls")],
        Expected(text="Hi", finish="max_tool_calls"),
    ),
    "filtered without output": (
        [incomplete("content_filter")],
        Expected(error=(InvalidRequestError, "content_filter"), finish="content_filter"),
    ),
    "filtered, after text": (
        [text_delta("m", "Hi"), incomplete("content_filter")],
        Expected(text="Hi", finish="content_filter"),
    ),
    "filtered, after a call": (
        [item_done(call("fc_1", "add", '{"a":2,"b":3}')), incomplete("content_filter")],
        Expected(calls=[ADD], finish="content_filter"),
    ),
    "cancelled without output": (
        [response_ended("cancelled")],
        Expected(error=(ProtocolError, "incomplete_cancelled"), finish="cancelled"),
    ),
    "cancelled, after text": (
        [text_delta("m", "Hi"), response_ended("cancelled")],
        Expected(text="Hi", finish="cancelled"),
    ),
    "incomplete, because it was cancelled": (
        [text_delta("m", "Hi"), incomplete("cancelled")],
        Expected(text="Hi", finish="cancelled"),
    ),
    "no event at all": ([], Expected(error=TRUNCATED, finish="error")),
    "only lifecycle events": (
        [event("created", response={"id": "r"}), event("queued", response={"id": "r"})],
        Expected(error=TRUNCATED, finish="error"),
    ),
}


@pytest.mark.parametrize(("events", "outcome"), ENDS.values(), ids=ENDS.keys())
def test_every_end_is_an_answer_or_a_typed_error(events: Events, outcome: Expected) -> None:
    outcome.check(events)


def test_the_error_says_whether_anything_was_received() -> None:
    assert "before any event" in str(adapt([]).result.error)
    assert "before its response was complete" in str(adapt([text_delta("m", "Hi")]).result.error)


USAGES: dict[str, tuple[Any, tuple[int, int, int, int, int] | None]] = {
    "complete": (
        {
            "input_tokens": 9,
            "output_tokens": 12,
            "total_tokens": 21,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 5},
        },
        (9, 12, 21, 4, 5),
    ),
    "without details": ({"input_tokens": 9, "output_tokens": 12, "total_tokens": 21}, (9, 12, 21, 0, 0)),
    "with details that are null": (
        {"input_tokens": 9, "output_tokens": 12, "total_tokens": 21, "input_tokens_details": None},
        (9, 12, 21, 0, 0),
    ),
    "null": (None, None),
    "not an object": ("many", None),
    "not numbers": ({"input_tokens": "many"}, None),
}


def test_usage_is_kept_if_a_later_snapshot_omits_it() -> None:
    early = event("in_progress", response={"id": "resp_1", "usage": {"input_tokens": 9}})
    usage = adapt([early, text_delta("m", "Hi"), completed(usage=None)]).result.usage
    assert usage is not None
    assert usage.input_tokens == 9


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES.keys())
def test_usage_is_read_if_it_is_valid(end: str, usage: Any, expected: tuple[int, ...] | None) -> None:
    found = adapt([text_delta("m", "Hi"), response_ended(end, usage=usage)]).result.usage
    figures = None
    if found is not None:
        details = found.input_tokens_details.cached_tokens, found.output_tokens_details.reasoning_tokens
        figures = (found.input_tokens, found.output_tokens, found.total_tokens, *details)
    assert figures == expected


NESTED_ERROR = {
    "type": "error",
    "error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow"},
}
FLAT_ERROR = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None}


@pytest.mark.parametrize(
    "ending",
    [[NESTED_ERROR], [FLAT_ERROR], [RATE_LIMIT], [NESTED_ERROR, RATE_LIMIT], [FLAT_ERROR, RATE_LIMIT]],
    ids=["nested", "flat", "failed", "nested, then failed", "flat, then failed"],
)
def test_an_error_has_its_type_and_keeps_the_parts_before_it(ending: list[JSON]) -> None:
    found = adapt([text_delta("m", "Half an ans"), *ending])
    assert found.summary == ["Half an ans"]
    assert found.error == (RateLimitError, "rate_limit_exceeded")
    assert found.result.error is not None
    assert found.result.error.message == "Slow"
    assert found.result.finish == "error"
    with pytest.raises(RateLimitError):
        found.result.raise_for_error()


def test_the_result_has_the_fields_of_the_last_snapshot() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    result = adapt(
        [
            event("created", response={"id": "resp_1", "model": "m"}),
            event("in_progress", response={"id": "resp_1", "model": "m-2025"}),
            text_delta("x", "Yes."),
            event("completed", response={"id": "resp_1", "status": "completed", "usage": usage}),
        ]
    ).result
    assert (result.response_id, result.model, result.status, result.finish) == (
        *("resp_1", "m-2025"),
        *("completed", "stop"),
    )
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.total_tokens) == (3, 4, 7)
    assert not result.refused
    result.raise_for_error()


def test_every_error_is_an_open_responses_error() -> None:
    assert isinstance(adapt([]).result.error, OpenResponsesError)
    assert adapt([failed("server_error", "boom")]).error == (ServerError, "server_error")


# The functions themselves


@pytest.mark.parametrize(
    ("status", "reason", "has_calls", "finish"),
    [
        ("completed", "", False, "stop"),
        ("completed", "", True, "tool_calls"),
        ("incomplete", "max_output_tokens", True, "length"),
        ("incomplete", "max_tokens", False, "length"),
        ("incomplete", "content_filter", False, "content_filter"),
        ("incomplete", "vendor_reason", False, "vendor_reason"),
        ("incomplete", "", False, "incomplete"),
        ("cancelled", "max_output_tokens", False, "cancelled"),
    ],
)
def test_the_reason_that_the_model_stopped(status: str, reason: str, has_calls: bool, finish: str) -> None:
    response = {"incomplete_details": {"reason": reason} if reason else None}
    assert finish_of(status, response, has_calls=has_calls) == finish


@pytest.mark.parametrize(
    ("finish", "malformed", "has_thinking", "code", "message"),
    [
        ("stop", "", False, "empty_response", "the model returned no answer"),
        ("stop", "", True, "empty_response", "the model returned only reasoning and no answer"),
        ("stop", "add", True, "malformed_tool_call", "the model called 'add' with malformed arguments"),
        ("length", "add", False, "incomplete_length", "raise max_output_tokens"),
        ("content_filter", "", False, "content_filter", "a content filter blocked the answer"),
        ("incomplete", "", False, "incomplete", "the response ended before the model answered"),
        ("vendor_reason", "", False, "incomplete_vendor_reason", "the response ended before"),
    ],
)
def test_the_error_of_a_response_without_an_answer(
    finish: str, malformed: str, has_thinking: bool, code: str, message: str
) -> None:
    error = no_answer(finish, malformed=malformed, has_thinking=has_thinking)
    assert error.code == code
    assert message in error.message


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, False),
        ({"message": "  "}, False),
        ({"message": "boom"}, True),
        ({"error": {"message": "boom"}}, True),
        ({"error": {"code": "x"}, "message": "boom"}, True),
        ({"error": {"code": "x"}}, False),
    ],
)
def test_an_error_has_a_message_or_not(payload: JSON, expected: bool) -> None:
    assert has_message(payload) is expected
