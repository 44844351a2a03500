"""The table of vendors: their addresses, dialects and peculiarities.

A vendor that uses a known dialect is a row here and never a class, and no other module names a vendor. Any
other server with a known dialect needs a URL and no row. The values are taken from the vendor's documentation
or from recorded streams; a column that neither covers has its default.
"""

from __future__ import annotations

from penstock.dialects.plan import Quirks
from penstock.dialects.presets.preset import SAMPLER_FIELDS, UNLISTED, Preset

_OPENAI = Quirks(
    # OpenAI accepts system messages anywhere; its reasoning models refuse `max_tokens`.
    system_first=False,
    developer_role=True,
    effort="openai",
    max_tokens_field="max_completion_tokens",
    files=True,
)

_ROWS = (
    Preset(
        name="openai",
        title="OpenAI",
        dialect="responses",  # the only one that returns reasoning and accepts it back
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        quirks=_OPENAI,
        models="gpt-5.5, gpt-5-mini, o4-mini",
        optional_fields=frozenset(
            {
                "service_tier",
                "safety_identifier",
                "prompt_cache_key",
                "prompt_cache_retention",
                "prompt_cache_options",
                "user",
                "verbosity",
            }
        ),
        allowed_tools=True,
        original_responses=True,
        list_owner="openai-internal",
    ),
    Preset(
        name="azure",
        title="Azure OpenAI",
        telemetry_name="azure.ai.openai",
        dialect="responses",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        key_variable="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        quirks=_OPENAI,
        models="the names of your deployments",
        note="`{resource}` is the name of your resource",
        optional_fields=frozenset(
            {"service_tier", "safety_identifier", "prompt_cache_key", "user", "verbosity"}
        ),
        allowed_tools=True,
        original_responses=True,
    ),
    Preset(
        name="anthropic",
        title="Anthropic",
        dialect="anthropic",
        base_url="https://api.anthropic.com/v1",
        key_variable="ANTHROPIC_API_KEY",
        key_header="x-api-key",
        quirks=Quirks(files=True),
        models="claude-opus-4-7, claude-sonnet-4-5",
        web_search=True,
    ),
    Preset(
        name="gemini",
        title="Google Gemini",
        telemetry_name="gcp.gemini",
        dialect="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_variable="GEMINI_API_KEY",
        key_header="x-goog-api-key",
        quirks=Quirks(files=True),
        models="gemini-3-pro-preview, gemini-2.5-flash",
        key_prefixes=("AIza",),
        model_prefixes=("google",),
        web_search=True,
    ),
    # Gateways in front of many models
    Preset(
        name="vercel",
        title="Vercel AI Gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        key_variable="AI_GATEWAY_API_KEY",
        quirks=Quirks(reasoning_details=True, effort="openrouter"),
        models="anthropic/claude-sonnet-4.5, openai/gpt-5",
        optional_fields=frozenset({"service_tier", "prompt_cache_key", "verbosity"}),
        also_responses=True,
    ),
    Preset(
        name="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        quirks=Quirks(reasoning_details=True, effort="openrouter", files=True),
        models="anthropic/claude-sonnet-4.5, google/gemini-2.5-flash",
        optional_fields=frozenset({"service_tier", "prompt_cache_key", "user", "verbosity"}) | SAMPLER_FIELDS,
        videos=True,
        also_responses=True,
    ),
    Preset(
        name="huggingface",
        title="Hugging Face Inference Providers",
        base_url="https://router.huggingface.co/v1",
        key_variable="HF_TOKEN",
        quirks=Quirks(effort="low_to_high"),
        models="moonshotai/Kimi-K2-Instruct-0905, meta-llama/Llama-3.3-70B-Instruct",
        key_prefixes=("hf_",),
        also_responses=True,
    ),
    Preset(
        name="github",
        title="GitHub Models",
        base_url="https://models.github.ai/inference",
        key_variable="GITHUB_TOKEN",
        quirks=Quirks(effort="openai"),
        models="openai/gpt-5-mini, meta/Llama-3.3-70B-Instruct",
        key_prefixes=("ghp_", "gho_", "ghu_", "github_pat_"),
    ),
    Preset(
        name="copilot",
        title="GitHub Copilot",
        base_url="https://api.githubcopilot.com",
        key_variable="COPILOT_GITHUB_TOKEN",
        quirks=Quirks(effort="low_to_high"),
        models="gpt-4.1, claude-sonnet-4.5",
        note="not a public API: it needs a token from GitHub's own login, and may change",
    ),
    Preset(
        name="bedrock",
        title="Amazon Bedrock",
        telemetry_name="aws.bedrock",
        base_url="https://bedrock-mantle.{region}.api.aws/v1",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        quirks=Quirks(reasoning_field="reasoning", effort="low_to_high"),
        models="openai.gpt-oss-120b, qwen.qwen3-32b",
        note="`{region}` is an AWS region; the key is a Bedrock API key",
        key_prefixes=("AKIA", "ASIA"),
        model_prefixes=("amazon",),
        also_responses=True,
    ),
    # Makers of models
    Preset(
        name="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        # Reasoning that led to a tool call must be part of every later request (its guide to thinking mode);
        # other reasoning is ignored. So old reasoning is kept.
        quirks=Quirks(
            reasoning_field="reasoning_content",
            requires_reasoning=True,
            effort="deepseek",
            strict_tools=False,
            json_schema=False,
            images=False,
        ),
        models="deepseek-v4-pro, deepseek-v4-flash",
        model_prefixes=("deepseek-ai",),
    ),
    Preset(
        name="mistral",
        title="Mistral",
        telemetry_name="mistral_ai",
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        # Refuses unknown fields, such as `stream_options`; it always sends usage.
        quirks=Quirks(stream_usage=False),
        models="mistral-large-latest, magistral-medium-latest",
        model_prefixes=("mistralai",),
        short_call_ids=True,
    ),
    Preset(
        name="xai",
        title="xAI",
        telemetry_name="x_ai",
        base_url="https://api.x.ai/v1",
        key_variable="XAI_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="low_to_high"),
        models="grok-4, grok-code-fast-1",
        model_prefixes=("x-ai",),
        optional_fields=frozenset({"user"}),
        cache_key_header="x-grok-conv-id",
        also_responses=True,
    ),
    Preset(
        name="moonshot",
        title="Moonshot AI (Kimi)",
        telemetry_name="moonshot_ai",
        base_url="https://api.moonshot.ai/v1",
        key_variable="MOONSHOT_API_KEY",
        quirks=Quirks(
            effort="thinking",
            reasoning_field="reasoning_content",
            requires_reasoning=True,
            max_tokens_field="max_completion_tokens",
            strict_tools=False,
        ),
        models="kimi-k3, kimi-k2.6",
        model_prefixes=("moonshotai",),
        optional_fields=frozenset({"prompt_cache_key"}),
        inline_schemas=True,
        videos=True,
    ),
    Preset(
        name="zai",
        title="Z.ai (GLM)",
        base_url="https://api.z.ai/api/paas/v4",
        key_variable="ZAI_API_KEY",
        quirks=Quirks(
            reasoning_field="reasoning_content",
            effort="thinking",
            strict_tools=False,
            json_schema=False,
            tool_choice=False,  # supports only `auto`
        ),
        models="glm-5.2, glm-4.7-flash",
        model_prefixes=("z-ai", "zai-org"),
        videos=True,
    ),
    Preset(
        name="minimax",
        title="MiniMax",
        # Its Chat Completions API puts reasoning into the text, between tags; its Messages API separates it.
        dialect="anthropic",
        base_url="https://api.minimax.io/anthropic/v1",
        key_variable="MINIMAX_API_KEY",
        quirks=Quirks(strict_tools=False, json_schema=False, images=False),
        models="MiniMax-M3, MiniMax-M2.7",
    ),
    Preset(
        name="qwen",
        title="Alibaba Cloud Model Studio (Qwen)",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_variable="DASHSCOPE_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="qwen"),
        models="qwen3-max, qwen-plus",
        model_prefixes=("alibaba",),
        videos=True,
    ),
    Preset(
        name="cohere",
        title="Cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        key_variable="COHERE_API_KEY",
        quirks=Quirks(parallel_tool_calls=False),
        models="command-a-03-2025, command-r-08-2024",
    ),
    Preset(
        name="perplexity",
        title="Perplexity",
        base_url="https://api.perplexity.ai",
        key_variable="PERPLEXITY_API_KEY",
        quirks=Quirks(effort="low_to_high", stream_usage=False),  # usage is in every chunk
        models="sonar, sonar-reasoning-pro",
    ),
    # Hosts of open models
    Preset(
        name="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        quirks=Quirks(
            reasoning_field="reasoning", effort="none_to_high", max_tokens_field="max_completion_tokens"
        ),
        models="openai/gpt-oss-120b, llama-3.3-70b-versatile",
        key_prefixes=("gsk_",),
        optional_fields=frozenset({"service_tier", "user"}),
        also_responses=True,
    ),
    Preset(
        name="together",
        title="Together AI",
        base_url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        quirks=Quirks(reasoning_field="reasoning", effort="low_to_high"),
        models="moonshotai/Kimi-K2-Thinking, meta-llama/Llama-3.3-70B-Instruct-Turbo",
        optional_fields=frozenset({"user"}) | SAMPLER_FIELDS,
    ),
    Preset(
        name="fireworks",
        title="Fireworks AI",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="none_to_high"),
        models="accounts/fireworks/models/kimi-k2-thinking",
        optional_fields=frozenset({"user"}) | SAMPLER_FIELDS,
        cache_key_header="x-session-affinity",
        also_responses=True,
    ),
    Preset(
        name="cerebras",
        title="Cerebras",
        base_url="https://api.cerebras.ai/v1",
        key_variable="CEREBRAS_API_KEY",
        quirks=Quirks(
            reasoning_field="reasoning",
            effort="low_to_high",
            max_tokens_field="max_completion_tokens",
            images=False,
        ),
        models="gpt-oss-120b, zai-glm-4.7",
        optional_fields=frozenset({"service_tier"}),
    ),
    Preset(
        name="nvidia",
        title="NVIDIA NIM",
        base_url="https://integrate.api.nvidia.com/v1",
        key_variable="NVIDIA_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content"),
        models="meta/llama-3.3-70b-instruct",
    ),
    Preset(
        name="deepinfra",
        title="DeepInfra",
        base_url="https://api.deepinfra.com/v1/openai",
        key_variable="DEEPINFRA_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="none_to_high"),
        models="deepseek-ai/DeepSeek-V3.1",
        optional_fields=frozenset({"user"}) | SAMPLER_FIELDS,
    ),
    Preset(
        name="sambanova",
        title="SambaNova",
        base_url="https://api.sambanova.ai/v1",
        key_variable="SAMBANOVA_API_KEY",
        models="Meta-Llama-3.3-70B-Instruct",
    ),
    # Local servers, at their default ports
    Preset(
        name="ollama",
        title="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        quirks=Quirks(reasoning_field="reasoning", effort="none_to_high"),
        models="gpt-oss:20b, qwen3",
        also_responses=True,
        list_owner="library",
        probe="show",
    ),
    Preset(
        name="lmstudio",
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        quirks=Quirks(effort="low_to_high"),
        models="openai/gpt-oss-20b",
        optional_fields=SAMPLER_FIELDS,
        also_responses=True,
        list_owner="organization_owner",
        probe="loaded_instances",
    ),
    Preset(
        name="vllm",
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        quirks=Quirks(effort="none_to_high", reasoning_field="reasoning"),
        models="Qwen/Qwen3-32B",
        optional_fields=frozenset({"user"}) | SAMPLER_FIELDS,
        videos=True,
        also_responses=True,
        list_owner="vllm",
    ),
    Preset(
        name="llamacpp",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        quirks=Quirks(effort="template", reasoning_field="reasoning_content"),
        models="the model it was started with",
        optional_fields=SAMPLER_FIELDS,
        also_responses=True,
        list_owner="llamacpp",
        probe="props",
    ),
    Preset(
        name="sglang",
        title="SGLang",
        base_url="http://127.0.0.1:30000/v1",
        quirks=Quirks(effort="low_to_high", reasoning_field="reasoning_content"),
        models="Qwen/Qwen3-32B",
        optional_fields=SAMPLER_FIELDS,
        videos=True,
        also_responses=True,
        list_owner="sglang",
    ),
)

_WITHOUT_PRESET = (
    Preset(
        # It needs short-lived tokens of a cloud account instead of a key, so it is not a preset.
        name="vertex",
        title="Google Vertex AI",
        telemetry_name="gcp.vertex_ai",
        dialect="gemini",
        base_url="https://aiplatform.googleapis.com/v1",
        finish_reasons=(
            "FINISH_REASON_UNSPECIFIED",
            "STOP",
            "MAX_TOKENS",
            "SAFETY",
            "RECITATION",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MALFORMED_FUNCTION_CALL",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "UNEXPECTED_TOOL_CALL",
            "NO_IMAGE",
        ),
    ),
)
"""Vendors that have facts on record but are not presets."""

PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}
"""Every vendor that can be selected, by name."""

VENDORS: dict[str, Preset] = {row.name: row for row in (*_ROWS, *_WITHOUT_PRESET)}
"""Every vendor with facts on record, by name."""

MAKERS = frozenset(
    {
        *("ai21", "arcee", "baidu", "bytedance", "inception", "liquid", "meta", "meta-llama", "microsoft"),
        *("nousresearch", "xiaomi"),
    }
)
"""Model makers whose models other vendors host: prefixes of model names."""


ORIGINAL_TIERS = ("ultrafast",)
"""Service tiers that only the originator of the Responses API has: others refuse the whole request."""


def vendor_facts(vendor: str) -> Preset:
    """Return the row of a vendor; the defaults if it is not in the table."""
    return VENDORS.get(vendor, UNLISTED)
