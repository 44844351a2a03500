"""A model as Codex reads it from `GET /v1/models`.

Codex decodes the whole list or nothing: with a missing field or an unknown enum value, it ignores all models
or does not start (ask I1). So an entry has every field that any version requires, and only enum values
that all versions know. Fields that newer versions no longer read stay, because older versions reject a list
without them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.models.info import ModelInfo

SAFE_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The efforts that every version knows. Newer versions accept any value; older ones reject the list."""

_DESCRIPTIONS = {
    "none": "No reasoning",
    "minimal": "As little reasoning as possible",
    "low": "Quick answers with a little reasoning",
    "medium": "A balance of speed and depth",
    "high": "More reasoning, for hard problems",
    "xhigh": "Even more reasoning, for the hardest problems",
}
_USUAL_EFFORT = "medium"
"""Sent if the model has it and the user chose none. Otherwise the upstream's own default applies."""

_MOST_USABLE = 95
"""The percentage of a context window that Codex itself lets a conversation fill."""

_COMPACT_AT = 90
"""The percentage of the input limit at which Codex compacts a conversation: the turn that reaches it must
still fit."""

INSTRUCTIONS = """\
You are a coding agent. You work on the user's machine, in the directory that the environment context names, \
through the tools that you are offered.

# Work
- Do what the user asks, all of it and nothing beyond it. Continue until it is done, or until only the user \
can decide what comes next.
- Look before you change anything: read the files that matter, and search with `rg` where it is installed.
- Obey the AGENTS.md files that apply to the files you change. A deeper file takes precedence over a higher \
one, and the user's instructions over both.
- Keep changes small and in the style of the code around them. Fix causes, not symptoms.
- Do not touch changes that are not yours. Commit, push or delete only when you are asked to.
- Run the tests, or the program itself, where that is possible. Say so where it was not.

# Tools
- Call a tool instead of saying that you would. Do not claim a result that no tool gave you.
- Edit files with `apply_patch` where it is offered. A patch begins with the line `*** Begin Patch` and ends \
with `*** End Patch`. Between them each file has a line `*** Add File: PATH`, `*** Update File: PATH` or \
`*** Delete File: PATH`, with a path from the working directory. The lines of a new file begin with `+`. An \
update has hunks: a line `@@`, then lines that begin with a space (unchanged), `-` (removed) or `+` \
(added), with about three unchanged lines around a change.
- For work of several steps, keep a plan with the planning tool, if there is one.

# Answers
- Be brief and plain. Say what you changed and where, what you ran, and what is left to do.
"""
"""The instructions that Codex sends to a model. It has its own only for models that no list contains."""


class Level(Struct, frozen=True):
    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a command's output enters the conversation."""

    mode: str = "tokens"
    limit: int = 10_000


class CodexModel(Struct, frozen=True, kw_only=True):
    """One entry of `models`. Fields with a default are the same for every model."""

    slug: str
    display_name: str
    description: str | None
    default_reasoning_level: str | None
    supported_reasoning_levels: list[Level]
    shell_type: str
    visibility: str = "list"
    supported_in_api: bool = True
    priority: int
    availability_nux: None = None
    upgrade: None = None
    base_instructions: str = INSTRUCTIONS
    include_skills_usage_instructions: bool = True
    include_plugin_usage_instructions: bool = True
    supports_reasoning_summaries: bool
    supports_reasoning_summary_parameter: bool
    support_verbosity: bool = False
    default_verbosity: None = None
    apply_patch_tool_type: str | None
    truncation_policy: Truncation = Truncation()
    supports_parallel_tool_calls: bool
    context_window: int
    max_context_window: int
    auto_compact_token_limit: int
    effective_context_window_percent: int
    experimental_supported_tools: list[str] = []
    input_modalities: list[str]


def codex_model(info: ModelInfo, priority: int) -> CodexModel:
    """Return the entry for Codex's list. Codex's default model is the one with the smallest `priority`."""
    efforts = [effort for effort in info.listed_efforts if effort in SAFE_EFFORTS]
    # Codex omits `reasoning` from requests to a model that does not support it. If support is unknown, what
    # the user configured is sent.
    may_reason = info.reasoning or info.sources.get("reasoning") == "default"
    # Codex removes images from requests to a model without them, so an unknown model lists them (field F7).
    may_see = info.image_input or info.sources.get("image_input") == "default"
    return CodexModel(
        slug=info.id,
        display_name=info.name,
        description=info.description or None,
        default_reasoning_level=_USUAL_EFFORT if _USUAL_EFFORT in efforts else None,
        supported_reasoning_levels=levels(efforts),
        shell_type="unified_exec" if info.tool_calling else "disabled",
        priority=priority,
        supports_reasoning_summaries=may_reason,
        supports_reasoning_summary_parameter=may_reason,
        # A custom tool with a grammar; upstreams without custom tools get a function instead.
        apply_patch_tool_type="freeform" if info.tool_calling else None,
        supports_parallel_tool_calls=info.tool_calling,
        context_window=info.context_window,
        max_context_window=info.context_window,
        auto_compact_token_limit=max(info.max_input * _COMPACT_AT // 100, 1),
        effective_context_window_percent=_usable(info),
        input_modalities=["text", "image"] if may_see else ["text"],
    )


def levels(efforts: Iterable[str]) -> list[Level]:
    return [Level(effort, _DESCRIPTIONS.get(effort, effort)) for effort in efforts]


def _usable(info: ModelInfo) -> int:
    """Return the percentage of the window that input may fill. Codex has no output limit, so the rest of the
    window is reserved for the output."""
    return min(max(info.max_input * 100 // info.context_window, 1), _MOST_USABLE)
