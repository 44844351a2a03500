"""The table of `docs/limits.md`, from the values in the code."""

from __future__ import annotations

from penstock.dialects.frames import MOST_VALUES
from penstock.dialects.pipeline import MOST_DELTAS
from penstock.formatting import format_size as size
from penstock.gateway.api import websocket as socket_turns
from penstock.gateway.api.conversations import MOST_ITEMS
from penstock.gateway.http import bodies
from penstock.gateway.settings import Limits
from penstock.gateway.turn.idempotency import LONGEST_KEY
from penstock.gateway.turn.requests import LONGEST_NAME, NAMESPACE_DEPTH, NESTING
from penstock.net import encodings, response_parser
from penstock.net.server import connection, request_heads, websocket

_DEFAULT = Limits()

Row = tuple[str, str, str, str]
"""What is limited, the default, its setting under `[limits]` (empty: fixed), and what happens beyond it."""


def rows() -> tuple[Row, ...]:
    """Return every limit on what a client or an upstream may send."""
    default, closed = _DEFAULT, "the connection is closed"
    return (
        ("connections of clients", "half of the open files of the process", "connections",
         "the longest idle connection is closed; if all are busy, 503 `server_is_overloaded`"),
        ("turns at a time", "unlimited", "max_turns", "503 `server_is_overloaded`"),
        ("a request's head, its trailers, the bytes between two chunks", size(request_heads.HEAD_BYTES), "",
         "431 `request_head_too_large`"),
        ("time for a request's head", f"{connection.HEAD_SECONDS:g} s", "", closed),
        ("time between two requests of a connection", f"{connection.IDLE_SECONDS:g} s", "", closed),
        ("requests that are sent ahead", size(connection.WAITING_BYTES), "", "the connection is not read"),
        ("time for a request's body", f"{default.client_timeout:g} s", "client_timeout",
         "408 `request_timeout`"),
        ("time in which a client reads nothing", f"{default.client_timeout:g} s", "client_timeout", closed),
        ("a request's body, decompressed", size(default.body_bytes), "body_bytes",
         "413 `request_too_large`"),
        ("content encodings of a body", str(bodies.MOST_ENCODINGS), "", "415 `unsupported_encoding`"),
        ("members of a gzip body", f"{bodies.MOST_MEMBERS:,}", "", "400 `invalid_encoding`"),
        ("blocks of a zstd body", f"{bodies.MOST_BLOCKS:,}", "", "400 `invalid_encoding`"),
        ("bodies that are received at a time", f"{bodies.MOST_RECEIVING} of the maximum size", "",
         "503 `server_is_overloaded`"),
        ("levels of nested JSON", f"{NESTING}", "", "400 `invalid_request`"),
        ("JSON values of a request", f"{default.body_values:,}", "body_values", "400 `invalid_request`"),
        ("items of a request", f"{default.input_items:,}", "input_items", "400 `invalid_request`"),
        ("content parts of a request", f"{default.content_parts:,}", "content_parts",
         "400 `invalid_request`"),
        ("tools of a request", f"{default.tools:,}", "tools", "400 `invalid_request`"),
        ("characters in the name of a tool", f"{LONGEST_NAME}", "", "400 `invalid_request`"),
        ("levels of namespaces", f"{NAMESPACE_DEPTH}", "", "400 `invalid_request`"),
        ("characters of an `Idempotency-Key`", f"{LONGEST_KEY}", "", "400 `invalid_request`"),
        ("items that are added to a conversation at once", f"{MOST_ITEMS}", "", "400 `invalid_request`"),
        ("a WebSocket message", size(default.body_bytes), "body_bytes", "closed with 1009"),
        ("WebSocket messages that wait", f"{websocket.WAITING_MESSAGES}", "", "closed with 1008"),
        ("time for a pong", f"{websocket.PING_SECONDS:g} s", "", closed),
        ("turns of a WebSocket at a time", f"{socket_turns.MOST_RUNNING}", "", "they wait"),
        ("`stream_id`s of a WebSocket", f"{socket_turns.MOST_LANES}", "",
         "400 `websocket_stream_limit_reached`"),
        ("duration of a WebSocket", f"{socket_turns.LONGEST / 60:g} minutes", "",
         "`websocket_connection_limit_reached`, closed with 1001"),
        ("an upstream's answer, decompressed", size(default.answer_bytes), "answer_bytes",
         "the turn fails with `upstream_invalid`"),
        ("items of an upstream's answer, counted every 256 KiB", f"{default.output_items:,}", "output_items",
         "the turn fails with `upstream_invalid`"),
        ("JSON values of one frame of an upstream, or of an answer that is not streamed", f"{MOST_VALUES:,}",
         "", "the turn fails with `upstream_invalid`"),
        ("changes by 32 frames of an upstream, or by an answer that is not streamed", f"{MOST_DELTAS:,}", "",
         "the turn fails with `upstream_invalid`"),
        ("the head of an upstream's answer", size(response_parser.MOST_HEAD), "",
         "the turn fails with `upstream_invalid`"),
        ("members of an upstream's gzip body", f"{encodings.MOST_MEMBERS:,}", "",
         "the turn fails with `upstream_invalid`"),
    )  # fmt: skip


def as_markdown() -> str:
    """Return the table."""
    lines = [
        f"| {what} | {default} | {f'`{setting}`' if setting else 'fixed'} | {beyond} |"
        for what, default, setting, beyond in rows()
    ]
    return "\n".join(["| what | limit | setting | beyond it |", "|---|---|---|---|", *lines])
