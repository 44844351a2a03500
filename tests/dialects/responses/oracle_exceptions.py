"""Recordings of the Responses API on which an oracle and the reader differ: in which aspects, and why."""

_OWN = "calls: an item of its own type, which the oracle reads as a tool call (quirk R14 to quirk R16)"
_RAW = "reasoning: the oracle does not read raw reasoning (quirk R10)"

_DEEPSEEK = "deepseek.pydantic-ai.test-deepseek-responses-test-deepseek-responses-"

_REASONS: dict[str, str] = {
    f"{_DEEPSEEK}function-tool-stream.0.sse": _RAW,
    f"{_DEEPSEEK}text-stream.0.sse": _RAW,
    "lmstudio.ai.open-responses-lmstudio-tool-call-1.0.jsonl": _RAW,
    "lmstudio.ai.open-responses-lmstudio-tool-call-2.0.jsonl": _RAW,
    "openrouter.pydantic-ai.test-openai-responses-test-openai-responses-raw-cot-stream-openrouter.0.sse": (
        _RAW
    ),
    "openai.ai.openai-openai-apply-patch-tool-1.0.jsonl": _OWN,
    "openai.ai.openai-openai-apply-patch-tool-delete-1.0.jsonl": _OWN,
    "openai.ai.openai-openai-client-tool-search-1.0.jsonl": _OWN,
    "openai.ai.openai-openai-local-shell-tool-1.0.jsonl": _OWN,
    "openai.ai.openai-openai-shell-skills-1.0.jsonl": _OWN,
    "openai.ai.openai-openai-shell-tool-1.0.jsonl": _OWN,
    "openai.ai.should-use-the-final-tool-search-call-id-when-the-streamed-provisional-id-change.11.sse": _OWN,
    "openai.pydantic-ai.test-tool-search-test-openai-client-tool-search-streaming.0.sse": _OWN,
    "openai.ai.openai-openai-phase-1.0.jsonl": (
        "text: the recording was trimmed; its items have the text that its deltas lack"
    ),
    "openai.ai.should-handle-both-url-citation-and-file-citation-annotations.18.sse": (
        "text: only `done` events have the text, and the oracle reads deltas (quirk R5)"
    ),
    "openai.ai.should-send-finish-reason-for-incomplete-response.3.sse": (
        "text: written by hand; `output_text.done` has more than the deltas, and the oracle reads deltas"
    ),
    "huggingface.ai.should-handle-non-message-item-types.2.sse": (
        "finish: the oracle's schema refuses an event, and counts that as an error"
    ),
    "huggingface.ai.should-stream-tool-calls.3.sse": (
        "calls, finish: the oracle's schema refuses the item of the call, and counts that as an error"
    ),
    "openai.prism.openai-stream-multiple-output-items-1.0.sse": (
        "finish: the oracle's schema refuses events that lack fields, and counts that as an error"
    ),
    "xai.ai.xai-xai-web-search-tool-1.0.jsonl": (
        "finish: the oracle's schema refuses xAI's search items, and counts that as an error"
    ),
    "xai.ai.xai-xai-x-search-tool.0.jsonl": (
        "calls, finish: xAI runs these tools itself (quirk R6); the oracle's schema refuses its search items"
    ),
}

EXCEPTIONS: dict[str, str] = {f"openai-responses/{file}": reason for file, reason in _REASONS.items()}
