"""Entries of model lists in the formats of various servers, written from their documentation."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

OPENAI: dict[str, Any] = {"id": "gpt-5-2025-08-07", "object": "model", "created": 1, "owned_by": "openai"}

OPENROUTER: dict[str, Any] = {
    "id": "maker/thinker-2:free",
    "canonical_slug": "maker/thinker-2",
    "name": "Maker: Thinker 2 (free)",
    "description": "Thinks twice.",
    "context_length": 262144,
    "architecture": {
        "modality": "text+image->text",
        "input_modalities": ["text", "image"],
        "output_modalities": ["text"],
        "tokenizer": "Other",
    },
    "pricing": {
        "prompt": "0.00000125",
        "completion": "0.00001",
        "request": "0",
        "input_cache_read": "0.000000125",
        "input_cache_write": "0.0000015625",
    },
    "top_provider": {"context_length": 131072, "max_completion_tokens": 32768, "is_moderated": False},
    "supported_parameters": ["max_tokens", "tools", "tool_choice", "reasoning"],
    "reasoning": {"supported_efforts": ["low", "high"], "default_effort": "low"},
}

VERCEL: dict[str, Any] = {
    "id": "maker/writer-1",
    "object": "model",
    "owned_by": "maker",
    "name": "Writer 1",
    "description": "Writes.",
    "context_window": 200000,
    "max_tokens": 64000,
    "type": "language",
    "tags": ["reasoning", "tool-use", "vision", "file-input"],
    "pricing": {
        "input": "0.000003",
        "output": "0.000015",
        "input_cache_read": "0.0000003",
        "input_cache_write": "0.00000375",
    },
}

VERCEL_REASONING: list[dict[str, Any]] = [
    {**VERCEL, "id": id, "owned_by": id.partition("/")[0], "name": id}
    for id in (
        "anthropic/claude-sonnet-4.5",
        "google/gemini-2.5-pro",
        "xai/grok-4-fast-reasoning",
        "deepseek/deepseek-v3.2-thinking",
    )
]
"""Models of four vendors, tagged as reasoning but without efforts, as Vercel AI Gateway lists them."""

CODEX: dict[str, Any] = {
    "slug": "gpt-9-codex",
    "display_name": "GPT-9 Codex",
    "description": "Codes.",
    "context_window": 272000,
    "max_context_window": 400000,
    "input_modalities": ["text", "image"],
    "default_reasoning_level": "medium",
    "supported_reasoning_levels": [
        {"effort": "low", "description": "fast"},
        {"effort": "medium", "description": "both"},
        {"effort": "high", "description": "deep"},
    ],
    "shell_type": "shell_command",
    "visibility": "list",
}

VLLM: dict[str, Any] = {"id": "Qwen/Qwen3-32B", "object": "model", "owned_by": "vllm", "max_model_len": 40960}

LLAMACPP: dict[str, Any] = {
    "id": "some.gguf",
    "object": "model",
    "owned_by": "llamacpp",
    "meta": {"vocab_type": 2, "n_ctx_train": 131072, "n_params": 1},
}

LMSTUDIO: dict[str, Any] = {
    "id": "maker/local-vl",
    "object": "model",
    "type": "vlm",
    "publisher": "maker",
    "arch": "x",
    "compatibility_type": "gguf",
    "state": "loaded",
    "max_context_length": 131072,
    "loaded_context_length": 8192,
    "capabilities": ["tool_use"],
}

LMSTUDIO_1: dict[str, Any] = {
    "type": "llm",
    "publisher": "maker",
    "key": "maker/local",
    "display_name": "Local",
    "max_context_length": 131072,
    "loaded_instances": [
        {"id": "a", "config": {"context_length": 16384}},
        {"id": "b", "config": {"context_length": 8192}},
    ],
    "capabilities": {"vision": False, "trained_for_tool_use": True, "reasoning": {"allowed_options": ["on"]}},
}

ANTHROPIC: dict[str, Any] = {
    "type": "model",
    "id": "claude-next",
    "display_name": "Claude Next",
    "created_at": "2026-01-01T00:00:00Z",
    "max_input_tokens": 200000,
    "max_tokens": 64000,
    "capabilities": {
        "image_input": {"supported": True},
        "thinking": {"supported": True, "types": {}},
        "effort": {"supported": True, "low": {"supported": True}, "max": {"supported": False}},
    },
}

GEMINI: dict[str, Any] = {
    "name": "models/gemini-next",
    "displayName": "Gemini Next",
    "description": "Sees.",
    "inputTokenLimit": 1048576,
    "outputTokenLimit": 65536,
    "supportedGenerationMethods": ["generateContent", "countTokens"],
    "thinking": True,
}

COPILOT: dict[str, Any] = {
    "id": "gpt-next",
    "name": "GPT Next",
    "vendor": "Azure OpenAI",
    "capabilities": {
        "type": "chat",
        "limits": {
            "max_context_window_tokens": 128000,
            "max_prompt_tokens": 64000,
            "max_output_tokens": 4096,
        },
        "supports": {"tool_calls": True, "vision": False, "reasoning_effort": ["low", "high"]},
    },
}

MISTRAL: dict[str, Any] = {
    "id": "mistral-next",
    "object": "model",
    "owned_by": "mistralai",
    "type": "base",
    "max_context_length": 131072,
    "capabilities": {"completion_chat": True, "function_calling": False, "vision": True},
}

TOGETHER: dict[str, Any] = {
    "id": "maker/open",
    "type": "chat",
    "display_name": "Open",
    "context_length": 32768,
    "pricing": {"hourly": 0, "input": 0.3, "output": 0.6, "cached_input": 0.15},
}

NOT_CHAT: list[dict[str, Any]] = [
    {"id": "maker/embedder", "type": "embedding"},
    {"id": "maker/painter", "type": "image"},
    {"id": "maker/sorter", "type": "reranking"},
    {"id": "local-embedder", "type": "embeddings", "state": "not-loaded"},
    {"id": "copilot-embedder", "capabilities": {"type": "embeddings"}},
    {"id": "maker/speaker", "architecture": {"output_modalities": ["audio"]}},
    {"id": "maker/older-painter", "architecture": {"modality": "text->image"}},
    {"id": "x", "name": "models/embedder", "supportedGenerationMethods": ["embedContent"]},
    {"id": "mistral-ocr", "capabilities": {"completion_chat": False}},
    {"id": "embedder.gguf", "capabilities": ["embedding"]},
    {"id": "text-embedding-3-large", "object": "model"},
    {"id": "openai/whisper-1"},
    {"id": "gpt-4o-mini-tts"},
]

ALL = [
    *(OPENAI, OPENROUTER, VERCEL, CODEX, VLLM, LLAMACPP, LMSTUDIO, LMSTUDIO_1, ANTHROPIC, GEMINI, COPILOT),
    *(MISTRAL, TOGETHER),
]

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
"""Any JSON value, for damaged lists and answers."""
