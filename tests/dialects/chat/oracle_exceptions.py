"""Recordings of Chat Completions that both oracles read differently, and why our reading is right."""

_ORACLE_REASONING = "the oracles do not read this field of reasoning (quirk C24, quirk C26)"
_LEGACY_CALL = "the oracles do not read the legacy function_call (quirk C23)"
_CUT_CALL = "incomplete JSON arguments at a normal end fail the response (decision 5)"
_REASONING_APART = "the vendor counts reasoning tokens separately; our output tokens include them (quirk C7)"
_NO_FINISH = "[DONE] without a finish_reason is an end (quirk C9)"

EXCEPTIONS: dict[str, str] = {
    "chat-completions/azure.ai.azure-azure-deepseek-reasoning-1.0.jsonl": _ORACLE_REASONING,
    "chat-completions/cloudflare.opencode.cloudflare-ai-gateway-cloudflare-ai-gateway-workers-ai-llama-3-1-8b-text.0.sse": "a usage of zeros does not replace the real one (quirk C6)",  # noqa: E501
    "chat-completions/github-copilot.vscode-copilot-chat.single-function-call.17.sse": _LEGACY_CALL,
    "chat-completions/github-copilot.vscode-copilot-chat.stream-containing-cot-summary-and-cot-id.13.sse": "cot_summary is reasoning (quirk C29), and the arguments of its call are not JSON (decision 5)",  # noqa: E501
    "chat-completions/github-copilot.vscode-copilot-chat.stream-from-github-bing-search-skill.20.sse": "two frames lost their escapes when they were pasted; a frame that is not JSON fails the response (ask E1)",  # noqa: E501
    "chat-completions/openai.openai-python.external-173417d553406f034f643e5db3f8d591fb691ebac56f5ae39a22cc7d455c5353.0.sse": "a refusal is a content part of a completed response (quirk C30)",  # noqa: E501
    "chat-completions/openai.weave.openai-test-test-openai-function-call-async-stream.0.sse": _LEGACY_CALL,
    "chat-completions/openrouter.ai-sdk-provider.should-attach-reasoning-details-providermetadata-only-to-the-first-tool-call-in.38.sse": _ORACLE_REASONING,  # noqa: E501
    "chat-completions/openrouter.ai-sdk-provider.should-emit-full-lifecycle-for-multiple-unsent-tool-calls-in-flush-path.29.sse": _CUT_CALL,  # noqa: E501
    "chat-completions/openrouter.ai-sdk-provider.should-emit-only-tool-input-end-in-flush-path-when-tool-call-was-partially-strea.22.sse": _CUT_CALL,  # noqa: E501
    "chat-completions/openrouter.ai-sdk-provider.should-emit-tool-input-end-in-flush-path-when-tool-call-was-partially-streamed-b.2.sse": _CUT_CALL,  # noqa: E501
    "chat-completions/openrouter.ai-sdk-provider.should-handle-mixed-paths-one-tool-completes-during-stream-another-goes-to-flush.30.sse": _CUT_CALL,  # noqa: E501
    "chat-completions/openrouter.ai-sdk-provider.should-infer-tool-calls-finishreason-when-finish-reason-is-missing-but-tool-call.5.sse": _NO_FINISH,  # noqa: E501
    "chat-completions/snowflake.pydantic-ai.test-snowflake-test-snowflake-thinking-streaming.0.sse": "reasoning_details is reasoning (quirk C26), and [DONE] without a finish_reason is an end (quirk C9)",  # noqa: E501
    "chat-completions/vercel-gateway.fantasy.gemini-2-5-flash-multi-tool-streaming.0.sse": _REASONING_APART,
    "chat-completions/vercel-gateway.fantasy.gemini-3-pro-preview-multi-tool-streaming.0.sse": _REASONING_APART,  # noqa: E501
    "chat-completions/vercel-gateway.fantasy.gemini-3-pro-preview-simple-streaming.0.sse": _REASONING_APART,
    "chat-completions/xai.ai.openai-compatible-xai-tool-call.0.jsonl": _REASONING_APART,
    "chat-completions/xai.ai.xai-xai-text.0.jsonl": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-3-mini-thinking-streaming.0.sse": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-3-mini-thinking-streaming.1.sse": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-4-fast-tool-streaming.0.sse": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-4-fast-tool-streaming.1.sse": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-code-fast-simple-object-streaming.0.sse": _REASONING_APART,
    "chat-completions/xai.fantasy.xai-grok-code-fast-tool-streaming.0.sse": _REASONING_APART,
}
