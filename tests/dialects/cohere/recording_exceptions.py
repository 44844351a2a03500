"""Recordings of Cohere that we read differently from the oracles, and why."""

_PLAN = "the oracle drops the tool plan, which we read as reasoning"
_QUOTED = 'the oracle fails on the end marker, which is the JSON string "[DONE]" here'
_TOOLS = "cohere/cohere.openllmetry.test-chat-test-cohere-v2-chat-legacy-with-tool-calls-and-streaming"
_RUBY = (
    "cohere/cohere.ruby_llm.chat-function-calling-cohere-command-a-03-2025-can-use-tools-without-parameters"
)

EXCEPTIONS: dict[str, str] = {
    "cohere/cohere.ai.cohere-cohere-empty-tool-call.0.jsonl": _PLAN,
    f"{_TOOLS}.0.sse": _PLAN,
    f"{_TOOLS}-async.0.sse": _PLAN,
    f"{_RUBY}.0.sse": _PLAN,
    "cohere/cohere.weave.cohere-test-test-cohere-async-stream-v2.0.sse": _QUOTED,
    "cohere/cohere.weave.cohere-test-test-cohere-stream-v2.0.sse": _QUOTED,
}
