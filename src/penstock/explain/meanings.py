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
