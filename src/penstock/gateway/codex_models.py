"""A model as Codex reads it from `GET /v1/models`.

Its decoder takes the whole list or nothing: a missing field, or a word that it does not know, and Codex goes
on without any of the models, or does not start (ask I1). So an entry has every field that some version
of it asks for, and of its enumerations only words that all of them know. What newer versions no longer read
stays, because older ones refuse a list without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.models.info import ModelInfo

SAFE_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The words for an effort that every version knows. Newer ones take any word; older ones refuse the list."""

_DESCRIPTIONS = {
    "none": "No reasoning",
    "minimal": "As little reasoning as there can be",
    "low": "Quick answers with a little reasoning",
    "medium": "Between speed and depth",
    "high": "More reasoning, for hard problems",
    "xhigh": "Even more reasoning, for the hardest problems",
}
_USUAL_EFFORT = "medium"
"""Sent where the model has it and the user chose none. Where it has not, the upstream's own default holds."""

_MOST_USABLE = 95
"""Codex's own share of a window that a conversation may fill, in percent."""

_COMPACT_AT = 90
"""The share of the input at which a conversation is made shorter: the turn that gets there must still fit."""

INSTRUCTIONS = """\
You are a coding agent. You work on the user's machine, in the directory that the environment context names, \
through the tools that you are offered.

# Work
- Do what the user asks, all of it and nothing beyond it. Go on until it is done, or until only the user can \
decide what comes next.
- Look before you change anything: read the files that matter, and search with `rg` where it is installed.
- Obey the AGENTS.md files that apply to the files you change. A deeper one goes before a higher one, and \
the user's word before both.
- Keep changes small and in the style of the code around them. Mend causes, not symptoms.
- Changes that are not yours belong to somebody: leave them alone. Commit, push or delete only when you are \
asked to.
- Run the tests, or the program itself, where that is possible. Say so where it was not.

# Tools
- Call a tool instead of saying that you would. Claim no result that no tool gave you.
- Edit files with `apply_patch` where it is offered. A patch begins with the line `*** Begin Patch` and ends \
with `*** End Patch`. Between them each file has a line `*** Add File: PATH`, `*** Update File: PATH` or \
`*** Delete File: PATH`, with a path from the working directory. The lines of a new file begin with `+`. An \
update has hunks: a line `@@`, then lines that begin with a space (as they are), `-` (removed) or `+` \
(added), with about three unchanged lines around a change.
- For work of several steps, keep a plan with the tool for plans, if there is one.

# Answers
- Be brief and plain. Say what you changed and where, what you ran, and what is left to do.
"""
"""What a model is told when Codex uses it: Codex has words of its own only for models that no list names."""


class Level(Struct, frozen=True):
    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a command's output goes into the conversation."""

    mode: str = "tokens"
    limit: int = 10_000


class CodexModel(Struct, frozen=True, kw_only=True):
    """One entry of `models`. Fields with a value here are the same for every model."""

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
    """The model for Codex's list. The one with the smallest `priority` is taken when a user names none."""
    efforts = [effort for effort in info.efforts if effort in SAFE_EFFORTS]
    # Codex leaves `reasoning` out of its requests for a model that takes none. Where nobody knows, what the
    # user configures is sent.
    may_reason = info.reasoning or info.sources.get("reasoning") == "default"
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
        # A custom tool with a grammar, which is a function to an upstream that has none of those.
        apply_patch_tool_type="freeform" if info.tool_calling else None,
        supports_parallel_tool_calls=info.tool_calling,
        context_window=info.context_window,
        max_context_window=info.context_window,
        auto_compact_token_limit=max(info.max_input * _COMPACT_AT // 100, 1),
        effective_context_window_percent=_usable(info),
        input_modalities=["text", "image"] if info.image_input else ["text"],
    )


def levels(efforts: Iterable[str]) -> list[Level]:
    return [Level(effort, _DESCRIPTIONS.get(effort, effort)) for effort in efforts]


def _usable(info: ModelInfo) -> int:
    """Codex knows no limit of output: what is kept for the answer is what it may not fill."""
    return min(max(info.max_input * 100 // info.context_window, 1), _MOST_USABLE)
