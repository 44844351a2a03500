"""Render a request for the demo model.

A field that the demo model cannot honour is reported as a diagnostic, as with every upstream (ask E6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from penstock.demo.media import describe
from penstock.demo.prose import EFFORTS
from penstock.demo.request import DemoFormat, DemoRequest, DemoTool, DemoTurn
from penstock.dialects.breakpoints import BREAKPOINT, any_breakpoint
from penstock.dialects.history import (
    AssistantTurn,
    Call,
    HistoryReasoning,
    HistoryText,
    SystemTurn,
    ToolOutput,
    Turn,
    UserTurn,
    history_of,
)
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.toolset import ToolSpec, choice_of, tools_of
from penstock.errors import DecodeError
from penstock.protocol.content import ContentPart, Refusal
from penstock.protocol.request import (
    ENCRYPTED_REASONING,
    LOGPROBS,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
    declared_tools,
    refuse_template,
    unsupported_includes,
)
from penstock.protocol.tools import CustomTool, NamespaceTool, Tool
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.call_ids import ORPHAN_OUTPUT
from penstock.tools.families import answered_call_id

HANDLED: dict[str, str] = {
    "model": "mapped",
    "input": "mapped",
    "instructions": "mapped",
    "previous_response_id": "gateway",
    "conversation": "gateway",
    "include": "mapped",  # encrypted reasoning, logprobs
    "tools": "mapped",
    "tool_choice": "mapped",
    "parallel_tool_calls": "mapped",
    "max_tool_calls": "mapped",
    "text": "mapped",
    "reasoning": "mapped",
    "temperature": "dropped",  # the answer is deterministic
    "top_p": "dropped",
    "presence_penalty": "dropped",
    "frequency_penalty": "dropped",
    "top_logprobs": "mapped",
    "max_output_tokens": "mapped",
    "truncation": "dropped",  # there is no limit on the input
    "stream": "gateway",
    "stream_options": "gateway",
    "background": "gateway",
    "store": "gateway",
    "service_tier": "dropped",
    "metadata": "gateway",
    "safety_identifier": "dropped",
    "prompt_cache_key": "dropped",
    "client_metadata": "gateway",
    "prompt_cache_retention": "dropped",
    "prompt_cache_options": "dropped",
    "user": "dropped",
    "prompt": "refused",
    "context_management": "dropped",
    "moderation": "dropped",
    "access_programs": "dropped",
    "image": "dropped",
    "extra": "dropped",
}
"""How each field of a request is handled, in the terms of `penstock.dialects.request_fields.MEANINGS`."""

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "prompt_cache_retention": ("in_memory", "in-memory"),
}
"""Values that ask for the default behaviour, so dropping them is not reported."""

_VERBOSITIES = ("low", "medium", "high")


def render(plan: Plan) -> UpstreamRequest:
    return _Renderer(plan).request()


class _Renderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = plan.request
        self._diagnostics = Diagnostics()

    def request(self) -> UpstreamRequest:
        given = self._request
        refuse_template(given)
        history = history_of(self._plan)
        specs, tool_diagnostics = tools_of(self._plan)
        choice = choice_of(self._plan, specs)
        has_result = self._ends_with_output()
        if has_result and choice.mode in ("required", "tool"):
            self._diagnostics.report(
                "tool_choice_weakened",
                "the demo model answers from the tool output instead of calling another tool",
            )
        rendered = DemoRequest(
            model=self._plan.target.model,
            instructions=history.system,
            turns=_turns([written for turn in history.turns for written in self._turn(turn)], has_result),
            has_result=has_result,
            tools=[self._tool(spec) for spec in specs],
            tool_mode=choice.mode or "auto",
            tool_name=choice.name,
            parallel_calls=given.parallel_tool_calls is not False,
            max_calls=None if given.max_tool_calls is UNSET else given.max_tool_calls,
            format=self._format(),
            verbosity=self._verbosity(),
            effort=self._effort(),
            summary=(given.reasoning.summary or "") if given.reasoning else "",
            seals=ENCRYPTED_REASONING in (given.include or ()),
            logprobs=self._logprobs(),
            max_tokens=None if given.max_output_tokens is UNSET else given.max_output_tokens,
        )
        self._report_grammars(declared_tools(given))
        self._report_dropped()
        diagnostics = [*history.diagnostics, *tool_diagnostics, *self._diagnostics.entries]
        return UpstreamRequest("demo", msgspec.to_builtins(rendered), {}, diagnostics)

    def _drop(self, field: str) -> None:
        self._diagnostics.report(
            "field_dropped", f"the demo model does not support `{field}`; it was dropped"
        )

    # -- the conversation

    def _ends_with_output(self) -> bool:
        """Return whether the input ends with a tool output, not counting system messages after it."""
        items = self._request.input
        for item in reversed(items if isinstance(items, list) else []):
            if getattr(item, "role", "") not in ("system", "developer"):
                return bool(answered_call_id(item))
        return False

    def _turn(self, turn: Turn) -> Iterator[DemoTurn]:
        if isinstance(turn, UserTurn):
            yield DemoTurn("user", *self._content(turn.parts))
        elif isinstance(turn, SystemTurn):
            yield DemoTurn("system", turn.text)
        elif isinstance(turn, AssistantTurn):
            yield self._assistant_turn(turn)
        else:
            yield from map(self._output, turn.outputs)

    def _assistant_turn(self, turn: AssistantTurn) -> DemoTurn:
        texts, remembered = [], []
        for piece in turn.pieces:
            if isinstance(piece, HistoryText):
                texts.append(piece.text)
            elif isinstance(piece, Call):
                texts.append(f"{piece.name} {piece.arguments}")
            else:
                texts += [piece.text] if piece.text and not piece.foreign else []
                remembered += _memory(piece)
        return DemoTurn("assistant", "\n".join(texts), remembered=remembered)

    def _output(self, output: ToolOutput) -> DemoTurn:
        identity = self._plan.tools.called(output.name)
        tool = identity.name if identity else output.name
        if isinstance(output.content, str):
            return DemoTurn("tool", output.content, tool=tool)
        return DemoTurn("tool", *self._content(output.content), tool=tool)

    def _content(self, parts: list[ContentPart]) -> tuple[str, list[str]]:
        """Return the text of a message, and descriptions of its other parts."""
        texts, media = [], []
        for part in parts:
            text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
            if isinstance(text, str):
                texts.append(text)
            elif description := describe(part):
                media.append(description)
            else:
                self._diagnostics.report(
                    "content_left_out",
                    f"the demo model cannot read content of type {part.type!r}; it was left out",
                )
        return "\n".join(texts), media

    # -- tools

    def _tool(self, spec: ToolSpec) -> DemoTool:
        identity = self._plan.tools.called(spec.name)
        title = identity.name if identity else spec.name
        return DemoTool(spec.name, title, spec.description, spec.parameters, custom=spec.type == "custom")

    def _report_grammars(self, tools: Iterable[Tool]) -> None:
        """Report grammars, which the demo model does not follow."""
        for tool in tools:
            if isinstance(tool, NamespaceTool):
                self._report_grammars(tool.tools)
            elif isinstance(tool, CustomTool) and (tool.format or {}).get("type") == "grammar":
                self._diagnostics.report(
                    "grammar_ignored", f"the demo model does not follow the grammar of {tool.name!r}"
                )

    # -- the answer

    def _format(self) -> DemoFormat:
        wanted = self._request.text.format if self._request.text else UNSET
        if isinstance(wanted, JsonSchemaFormat):
            return DemoFormat("json_schema", wanted.schema or {"type": "object"})
        if isinstance(wanted, JsonObjectFormat):
            return DemoFormat("json_object")
        if wanted and not isinstance(wanted, TextFormat) and wanted.type:
            message = f"the demo model does not support the format {wanted.type!r}; use text or json_schema"
            raise DecodeError(message, "text.format.type")
        return DemoFormat()

    def _verbosity(self) -> str:
        text = self._request.text
        if not text:
            return "medium"
        for name in text.extra or ():
            self._drop(f"text.{name}")
        if text.verbosity and text.verbosity not in _VERBOSITIES:
            self._drop("text.verbosity")
        return text.verbosity if text.verbosity in _VERBOSITIES else "medium"

    def _effort(self) -> str:
        reasoning = self._request.reasoning
        if not reasoning:
            return ""
        for name in reasoning.extra or ():
            self._drop(f"reasoning.{name}")
        if reasoning.effort and reasoning.effort not in EFFORTS:
            self._diagnostics.report("effort_changed", f"the effort {reasoning.effort!r} became 'medium'")
            return "medium"
        return reasoning.effort or ""

    def _logprobs(self) -> int | None:
        request = self._request
        for name in unsupported_includes(request, {LOGPROBS}):
            self._drop(name)
        if LOGPROBS in (request.include or ()) or request.top_logprobs:
            return request.top_logprobs or 0
        return None

    def _report_dropped(self) -> None:
        if any_breakpoint(self._request):
            self._drop(BREAKPOINT)
        for name, value in (self._request.extra or {}).items():
            if value is not None:
                self._drop(name)
        for name, handling in HANDLED.items():
            value = getattr(self._request, name)
            is_dropped = handling == "dropped" and name != "extra" and value is not UNSET
            if is_dropped and value not in _DEFAULTS.get(name, ()):
                self._drop(name)


def _turns(turns: list[DemoTurn], has_result: bool) -> list[DemoTurn]:
    """Turn outputs without a known call, which arrive as user messages, back into outputs."""
    for index, turn in reversed(list(enumerate(turns))):
        is_orphan = turn.role == "user" and turn.text.startswith(ORPHAN_OUTPUT)
        if not has_result or not (is_orphan or turn.role == "system"):
            break
        if is_orphan:
            turns[index] = replace(turn, role="tool", text=turn.text.removeprefix(ORPHAN_OUTPUT).lstrip("\n"))
    return turns


def _memory(thought: HistoryReasoning) -> list[str]:
    """Return the topic of encrypted reasoning that this model made."""
    about = thought.payload.get("about") if isinstance(thought.payload, dict) else None
    return [about] if isinstance(about, str) and about else []
