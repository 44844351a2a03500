"""Short explanations of error codes, for readers who have never seen them."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    # Errors from the upstream
    "invalid_request": "the request was rejected as invalid",
    "invalid_prompt": "the prompt was rejected",
    "content_filter": "a content filter stopped the response",
    "context_length_exceeded": "the conversation exceeds the model's context window",
    "authentication_error": "the API key is missing or invalid",
    "permission_denied": "the API key does not permit this",
    "upstream_unauthorized": "the upstream refused the key of the target, or the target has none",
    "upstream_forbidden": "the upstream refused the request, perhaps because of the key of the target",
    "model_not_found": "the model does not exist",
    "upstream_not_found": "the upstream has no such address: its base URL may be wrong",
    "rate_limit_exceeded": "too many requests or tokens in a short time",
    "insufficient_quota": "the account has no quota or credit left",
    "budget_exceeded": "the budget of the client's key is used up",
    "server_error": "the upstream had an internal error",
    "server_is_overloaded": "the upstream is overloaded",
    # Errors in the connection
    "upstream_unreachable": "the gateway could not connect to the upstream",
    "upstream_timeout": "the upstream sent nothing within the time limit",
    "upstream_truncated": "the upstream's answer was cut off",
    "upstream_invalid": "the upstream's answer could not be understood",
    "upstream_empty": "the upstream's answer was empty",
    "certificate_error": "the upstream's certificate is not trusted",
    "tls_error": "the TLS handshake failed",
    "proxy_error": "the proxy refused the connection or failed",
    # Errors in the stream
    "tool_not_allowed": "the model called only tools that the client does not allow or cannot run",
    "bridge.stream.incomplete_tool_call": "the upstream's answer ended in the middle of a tool call",
    # The gateway and the client
    "encrypted_content_unreadable": "a message between agents is encrypted for another vendor",
    "internal_error": "the gateway had an internal error; see its log",
    "shutting_down": "the gateway was shutting down",
    "gateway_restarted": "the gateway stopped or crashed before the response was complete",
    "cancelled": "a client requested the cancellation",
    "client_gone": "the client closed its connection",
    "client_stalled": "the client read nothing for too long",
    "worker_lost": "the worker that ran the response died",
    # Requests that the gateway refuses
    "accent_not_available": "the stored stream has events that the requested event naming cannot express",
    "conversation_not_found": "there is no such conversation, or it belongs to another key",
    "idempotency_key_reused": "the idempotency key was used for another request",
    "idempotency_outcome_unknown": "nobody knows what became of the first request with this idempotency key",
    "invalid_encoding": "the body cannot be decompressed",
    "invalid_http": "the request is not HTTP/1.1, or its end is ambiguous",
    "invalid_json": "the body is not JSON",
    "invalid_stream_id": "the id of a stream on the WebSocket is not valid",
    "invalid_upgrade": "the WebSocket handshake is invalid",
    "item_not_found": "there is no such item, or it belongs to another key",
    "method_not_allowed": "the path exists, but not for this HTTP method",
    "metrics_unavailable": "the metrics of another worker could not be read",
    "missing_required_parameter": "the request lacks a field",
    "not_a_stream": "the response was not streamed, so it has no events",
    "not_found": "there is no such path",
    "not_recorded": "the upstream's bytes of this turn were not recorded",
    "previous_response_not_found": "there is no such response, or it belongs to another key",
    "price_unknown": "the key has a budget in dollars, and the price of the model is not known",
    "request_head_too_large": "the headers of the request are too large",
    "request_timeout": "the request did not arrive in time",
    "request_too_large": "the request is too large",
    "response_not_found": "there is no such response, or it belongs to another key",
    "response_running": "the response has not ended",
    "store_unavailable": "the store cannot be reached or written",
    "unknown_accent": "there is no such event naming",
    "unknown_format": "there is no such format",
    "unsupported_api": "the request is one of another API, such as Chat Completions",
    "unsupported_encoding": "the body is compressed in a way that the gateway cannot read",
    "websocket_connection_limit_reached": "the WebSocket has been open for as long as it may be",
    "websocket_not_offered": "WebSockets are turned off",
    "websocket_stream_limit_reached": "too many responses run on the WebSocket",
    # Why a response is incomplete
    "max_output_tokens": "the model reached its output token limit",
    "steered": "the client steered the model in another direction",
}

CLOSERS: dict[str, str] = {
    "upstream": "the upstream ended the response",
    "client": "the client disconnected",
    "gateway": "the gateway ended the response",
    "timeout": "the gateway timed out waiting for the upstream",
}


def explained(code: str) -> str:
    """Return the code, with its explanation if there is one."""
    meaning = MEANINGS.get(code)
    return f"{code}: {meaning}" if meaning else code
