"""Streams and answers that fail."""

from __future__ import annotations

from typing import Any

from penstock.errors import (
    ContextOverflowError,
    NetworkError,
    OpenResponsesError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from tests.cli import streams
from tests.client.server import CHUNKED_HEAD, chunk, cut, send, sse, streamed
from tests.client.server import HELLO as HELLO_STREAM
from tests.provider.scripted_provider import (
    refused,
)

# Failures

THOUGHT = streams.response(
    [
        {"type": "response.reasoning.delta", "item_id": "rs_1", "delta": "Hm."},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
    ],
    [],
)
FAILED = [
    *HELLO_STREAM[:5],
    {
        "type": "response.failed",
        "sequence_number": 5,
        "response": {
            "id": "resp_1",
            "status": "failed",
            "error": {"code": "server_error", "message": "boom"},
        },
    },
]
OVERFLOW = "maximum context length is 1000 tokens. However, your messages resulted in 1234 tokens"
FAILURES: dict[str, tuple[Any, type[OpenResponsesError], str, bool]] = {
    "overflow": (refused(400, "context_length_exceeded", OVERFLOW), ContextOverflowError, "1000", False),
    "rate limit": (
        refused(429, "rate_limit_exceeded", "slow", retry_after="99"),
        RateLimitError,
        "slow",
        False,
    ),
    "empty": (streamed(streams.response([], [])), ProtocolError, "no answer", False),
    "thinking only": (streamed(THOUGHT), ProtocolError, "only reasoning", False),
    "fails in the stream": (streamed(FAILED), ServerError, "boom", True),
    "cut": ([send(CHUNKED_HEAD + chunk(sse(HELLO_STREAM[:5]))), cut], NetworkError, "broke", True),
}
