"""The vendors, as a table: where they are, how they are spoken to, and what is special about them.

A vendor that speaks a known dialect is a row here and never a class. Any other server that speaks one needs a
URL and no row. What a row says was taken from the vendor's documentation or from recorded streams; where
neither says anything, the quirk has its default.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from penstock.dialects.families import family_of
from penstock.dialects.plan import Quirks, Target
from penstock.dialects.registry import unknown

KEY_HEADERS: dict[str, tuple[str, str]] = {
    "bearer": ("Authorization", "Bearer {key}"),
    "x-api-key": ("x-api-key", "{key}"),
    "x-goog-api-key": ("x-goog-api-key", "{key}"),
    "api-key": ("api-key", "{key}"),
}
"""The ways in which a key is sent: the header and its value."""


class Preset(Struct, frozen=True, kw_only=True):
    """A vendor. `base_url` has `{placeholders}` only where every customer has an address of their own."""

    name: str
    title: str
    dialect: str = "chat"
    base_url: str
    key_variable: str = ""
    """The environment variable that holds the key. Servers on the own machine have none."""
    key_header: str = "bearer"
    """How the key is sent: a row of `KEY_HEADERS`."""
    quirks: Quirks = Quirks()
    models: str = ""
    """Names that this vendor knows, as an example."""
    note: str = ""


_OPENAI = Quirks(
    # OpenAI itself takes a conversation as it is; `max_tokens` is refused by its reasoning models.
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
        dialect="responses",  # reasoning comes back, and can be sent again, only there
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        quirks=_OPENAI,
        models="gpt-5.5, gpt-5-mini, o4-mini",
    ),
    Preset(
        name="azure",
        title="Azure OpenAI",
        dialect="responses",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        key_variable="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        quirks=_OPENAI,
        models="the names of your deployments",
        note="`{resource}` is the name of your resource",
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
    ),
    Preset(
        name="gemini",
        title="Google Gemini",
        dialect="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_variable="GEMINI_API_KEY",
        key_header="x-goog-api-key",
        quirks=Quirks(files=True),
        models="gemini-3-pro-preview, gemini-2.5-flash",
    ),
    # Gateways in front of many models
    Preset(
        name="vercel",
        title="Vercel AI Gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        key_variable="AI_GATEWAY_API_KEY",
        quirks=Quirks(reasoning_details=True, effort="openrouter"),
        models="anthropic/claude-sonnet-4.5, openai/gpt-5",
    ),
    Preset(
        name="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        quirks=Quirks(reasoning_details=True, effort="openrouter", files=True),
        models="anthropic/claude-sonnet-4.5, google/gemini-2.5-flash",
    ),
    Preset(
        name="huggingface",
        title="Hugging Face Inference Providers",
        base_url="https://router.huggingface.co/v1",
        key_variable="HF_TOKEN",
        quirks=Quirks(effort="low_to_high"),
        models="moonshotai/Kimi-K2-Instruct-0905, meta-llama/Llama-3.3-70B-Instruct",
    ),
    Preset(
        name="github",
        title="GitHub Models",
        base_url="https://models.github.ai/inference",
        key_variable="GITHUB_TOKEN",
        quirks=Quirks(effort="openai"),
        models="openai/gpt-5-mini, meta/Llama-3.3-70B-Instruct",
    ),
    Preset(
        name="copilot",
        title="GitHub Copilot",
        base_url="https://api.githubcopilot.com",
        key_variable="COPILOT_GITHUB_TOKEN",
        quirks=Quirks(effort="low_to_high"),
        models="gpt-4.1, claude-sonnet-4.5",
        note="not a public API: it takes tokens that GitHub's own login gives out, and may change",
    ),
    Preset(
        name="bedrock",
        title="Amazon Bedrock",
        base_url="https://bedrock-mantle.{region}.api.aws/v1",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        quirks=Quirks(reasoning_field="reasoning", effort="low_to_high"),
        models="openai.gpt-oss-120b, qwen.qwen3-32b",
        note="`{region}` is an AWS region; the key is a Bedrock API key",
    ),
    # Makers of models
    Preset(
        name="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        # Reasoning that led to a tool call must come back in every later request (its guide to thinking
        # mode); other reasoning is ignored when it does. So old reasoning is kept.
        quirks=Quirks(
            reasoning_field="reasoning_content",
            effort="deepseek",
            strict_tools=False,
            json_schema=False,
            images=False,
        ),
        models="deepseek-v4-pro, deepseek-v4-flash",
    ),
    Preset(
        name="mistral",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        # Refuses fields that it does not know, `stream_options` among them; usage comes without asking.
        quirks=Quirks(stream_usage=False),
        models="mistral-large-latest, magistral-medium-latest",
    ),
    Preset(
        name="xai",
        title="xAI",
        base_url="https://api.x.ai/v1",
        key_variable="XAI_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="low_to_high"),
        models="grok-4, grok-code-fast-1",
    ),
    Preset(
        name="moonshot",
        title="Moonshot AI (Kimi)",
        base_url="https://api.moonshot.ai/v1",
        key_variable="MOONSHOT_API_KEY",
        quirks=Quirks(
            effort="thinking",
            reasoning_field="reasoning_content",
            max_tokens_field="max_completion_tokens",
            strict_tools=False,
        ),
        models="kimi-k3, kimi-k2.6",
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
            tool_choice=False,  # knows `auto` alone
        ),
        models="glm-5.2, glm-4.7-flash",
    ),
    Preset(
        name="minimax",
        title="MiniMax",
        # Its Chat Completions put reasoning into the text, between tags; Messages keep it apart.
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
    ),
    Preset(
        name="together",
        title="Together AI",
        base_url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        quirks=Quirks(reasoning_field="reasoning", effort="low_to_high"),
        models="moonshotai/Kimi-K2-Thinking, meta-llama/Llama-3.3-70B-Instruct-Turbo",
    ),
    Preset(
        name="fireworks",
        title="Fireworks AI",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        quirks=Quirks(reasoning_field="reasoning_content", effort="none_to_high"),
        models="accounts/fireworks/models/kimi-k2-thinking",
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
    ),
    Preset(
        name="sambanova",
        title="SambaNova",
        base_url="https://api.sambanova.ai/v1",
        key_variable="SAMBANOVA_API_KEY",
        models="Meta-Llama-3.3-70B-Instruct",
    ),
    # Servers on the own machine, at the ports at which they start
    Preset(
        name="ollama",
        title="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        quirks=Quirks(reasoning_field="reasoning", effort="none_to_high"),
        models="gpt-oss:20b, qwen3",
    ),
    Preset(
        name="lmstudio",
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        quirks=Quirks(effort="low_to_high"),
        models="openai/gpt-oss-20b",
    ),
    Preset(
        name="vllm",
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        quirks=Quirks(effort="none_to_high", reasoning_field="reasoning"),
        models="Qwen/Qwen3-32B",
    ),
    Preset(
        name="llamacpp",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        quirks=Quirks(effort="template", reasoning_field="reasoning_content"),
        models="the model that it was started with",
    ),
    Preset(
        name="sglang",
        title="SGLang",
        base_url="http://127.0.0.1:30000/v1",
        quirks=Quirks(effort="low_to_high", reasoning_field="reasoning_content"),
        models="Qwen/Qwen3-32B",
    ),
)

PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}
"""Every vendor by its name."""


ALSO_RESPONSES = frozenset(
    {
        *("vercel", "openrouter", "huggingface", "bedrock", "xai", "groq", "fireworks"),
        *("ollama", "lmstudio", "vllm", "llamacpp", "sglang"),
    }
)
"""Vendors whose preset speaks Chat Completions, and who offer /responses at the same address as well."""


def speaks_responses(preset: Preset) -> bool:
    return preset.dialect == "responses" or preset.name in ALSO_RESPONSES


def preset(name: str) -> Preset:
    """The vendor of this name; `LookupError` says which names are near."""
    found = PRESETS.get(name)
    if found is None:
        raise unknown("preset", name, PRESETS)
    return found


def target_for(preset: Preset, model: str, key: str = "") -> Target:
    """A model at a vendor, for a plan."""
    return Target(
        model=model,
        vendor=preset.name,
        dialect=preset.dialect,
        family=family_of(model),
        key_fingerprint=fingerprint(key),
        quirks=preset.quirks,
    )


def fingerprint(key: str) -> str:
    """Tells one key from another and gives neither away."""
    return sha256(key.encode()).hexdigest()[:16] if key else ""


def as_markdown() -> str:
    """The table in `docs/presets.md`."""
    lines = [
        "| preset | vendor | dialect | base URL | key | models, for example |",
        "|---|---|---|---|---|---|",
    ]
    for row in PRESETS.values():
        key = f"`{row.key_variable}`" if row.key_variable else "none"
        title = f"{row.title} ({row.note})" if row.note else row.title
        lines.append(f"| `{row.name}` | {title} | {row.dialect} | `{row.base_url}` | {key} | {row.models} |")
    return "\n".join(lines)
