"""What the codes of a turn mean, for people who have never seen them."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    # The upstream refused
    "invalid_request": "the request was not accepted",
    "invalid_prompt": "the prompt was not accepted",
    "content_filter": "a content filter stopped it",
    "context_length_exceeded": "the conversation is longer than the model can read",
    "authentication_error": "the key is missing or wrong",
    "permission_denied": "the key does not allow this",
    "model_not_found": "there is no such model",
    "rate_limit_exceeded": "too much was asked in a short time",
    "insufficient_quota": "the account has nothing left to spend",
    "server_error": "the upstream failed by itself",
    "server_is_overloaded": "the upstream has too much to do",
    # The way to it
    "upstream_unreachable": "no connection could be made",
    "upstream_timeout": "the upstream was silent for too long",
    "upstream_truncated": "the upstream's answer was cut off before its end",
    "upstream_invalid": "what the upstream sent is no answer that can be passed on",
    "certificate_error": "the upstream's certificate is not trusted",
    "tls_error": "no secure connection could be made",
    "proxy_error": "the proxy on the way refused or failed",
    # The stream
    "tool_not_allowed": "the model called only tools that the request does not allow",
    "bridge.stream.incomplete_tool_call": "the upstream ended in the middle of a tool call",
    # The gateway and the client
    "internal_error": "the gateway itself failed; its log says where",
    "shutting_down": "the gateway was being stopped",
    "gateway_restarted": "the gateway was stopped or died before the response was whole",
    "cancelled": "somebody asked for it to be cancelled",
    "client_gone": "the client closed its connection",
    "client_stalled": "the client took nothing for too long",
    # Why it is incomplete
    "max_output_tokens": "the model reached the most tokens that it may write",
}

CLOSERS: dict[str, str] = {
    "upstream": "the upstream ended it",
    "client": "the client went away",
    "gateway": "the gateway ended it",
    "timeout": "the gateway gave up waiting for the upstream",
}


def explained(code: str) -> str:
    """A code with its meaning, where it has one here."""
    meaning = MEANINGS.get(code)
    return f"{code}: {meaning}" if meaning else code
