"""Render a request for Anthropic's Messages API: `POST messages`.

Of the two API versions that are served this is the older. It accepts everything that the newer one accepts,
plus `temperature` for the models that still support it, and it is the one that compatible APIs implement.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET

from penstock.dialects.anthropic.caching import MARK, mark_for_caching, placeholder
from penstock.dialects.anthropic.messages import loop_without_thinking, messages_of
from penstock.dialects.anthropic.schema import enforceable, tool_schema
from penstock.dialects.anthropic.thinking import Thinking, ThinkingRequest, thinking_of, traits_of
from penstock.dialects.history import AssistantTurn, Call, History, history_of
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.schemas import SchemaBudget
from penstock.dialects.toolset import (
    WEB_SEARCH,
    ToolSpec,
    UpstreamToolChoice,
    choice_of,
    tools_of,
    web_search_of,
)
from penstock.errors import DecodeError
from penstock.protocol.request import (
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
    TextFormat,
    refuse_template,
    unsupported_includes,
)
from penstock.protocol.tools import WebSearchTool
from penstock.stream.diagnostics import Diagnostics

_WEB_SEARCH_VERSION = "web_search_20250305"
"""The version of Anthropic's own search that every model with tools supports."""

HANDLED: dict[str, str] = {
    "model": "mapped",
    "input": "mapped",
    "instructions": "mapped",
    "previous_response_id": "gateway",
    "conversation": "gateway",
    "include": "gateway",  # encrypted reasoning is always sealed; other values are reported
    "tools": "mapped",
    "tool_choice": "mapped",
    "parallel_tool_calls": "mapped",
    "max_tool_calls": "dropped",
    "text": "mapped",
    "reasoning": "mapped",
    "temperature": "mapped",
    "top_p": "mapped",
    "presence_penalty": "dropped",
    "frequency_penalty": "dropped",
    "top_logprobs": "dropped",
    "max_output_tokens": "mapped",
    "truncation": "dropped",
    "stream": "gateway",
    "stream_options": "gateway",
    "background": "gateway",
    "store": "gateway",
    "service_tier": "mapped",
    "metadata": "gateway",
    "safety_identifier": "mapped",
    "prompt_cache_key": "mapped",
    "client_metadata": "gateway",
    "prompt_cache_retention": "mapped",
    "prompt_cache_options": "mapped",
    "user": "mapped",
    "prompt": "refused",
    "context_management": "dropped",
    "moderation": "dropped",
    "access_programs": "dropped",
    "image": "dropped",
    "extra": "mapped",  # `stop`; the rest is dropped by name
}
"""How each field of a request is handled."""
_DROPPED = tuple(name for name, handling in HANDLED.items() if handling == "dropped")

HEADERS = {"anthropic-version": "2023-06-01"}

TIERS: dict[str, str] = {
    "auto": "auto",
    "priority": "auto",
    "ultrafast": "auto",
    "default": "standard_only",
    "standard": "standard_only",
}
"""`service_tier`. Priority is used if the account has it; a request cannot require it."""

KNOWN_TIERS = ("auto", "priority", "default", "standard")
"""Tiers that have a counterpart here; any other in `TIERS` is replaced by the nearest."""

CHOICES: dict[str, str] = {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}

_DEFAULTS: dict[str, Any] = {"truncation": "disabled", "top_logprobs": 0}
"""Values that request the default behaviour; dropping them needs no diagnostic."""

_OBJECT_REQUEST = "Answer with one JSON object and nothing else."
_SCHEMA_REQUEST = "Answer with one JSON value and nothing else. It must match this JSON schema:\n"


def render(plan: Plan) -> UpstreamRequest:
    return _AnthropicRenderer(plan).request()


class _AnthropicRenderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = plan.request
        self._quirks = plan.target.quirks
        self._traits = traits_of(plan.target)
        self._diagnostics = Diagnostics()
        self._body: dict[str, Any] = {"model": plan.target.model}
        self._budget = SchemaBudget()
        self._extra_system: list[str] = []
        self._echo: dict[str, str | None] = {}

    def request(self) -> UpstreamRequest:
        refuse_template(self._request)
        history = history_of(self._plan)
        web_search = web_search_of(self._plan)
        specs, tool_diagnostics = tools_of(self._plan, web_search=web_search)
        choice = choice_of(self._plan, specs, web_search)
        messages = messages_of(self._plan, history, self._diagnostics)
        self._body["max_tokens"] = self._request.max_output_tokens or self._traits.max_tokens
        self._body["stream"] = True  # always; the gateway decides whether the client gets a stream
        self._format()
        self._sampling(self._thinking(choice, messages))
        self._tools(specs, choice, history, web_search)
        self._metadata()
        self._unmapped()
        if system := self._system(history):
            self._body["system"] = system
        # Last, so that the bytes of one turn are a prefix of the next turn's (ask D5).
        self._body["messages"] = messages
        mark_for_caching(self._body, self._request, self._diagnostics)
        diagnostics = [*history.diagnostics, *tool_diagnostics, *self._diagnostics.entries]
        return UpstreamRequest("messages", self._body, {**HEADERS}, diagnostics, self._echo)

    def _system(self, history: History) -> str | list[dict[str, Any]]:
        """Return the system prompt: one text, or blocks if the client marked a part of it for caching."""
        texts = [*history.system, *self._extra_system]
        if not history.system_breakpoints:
            joined = "\n\n".join(texts)
            return joined if joined.strip() else ""
        ends = [*history.system_breakpoints, len(texts)]
        pieces = ["\n\n".join(texts[begin:end]) for begin, end in pairwise([0, *ends])]
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": text, MARK: placeholder()} for text in pieces[:-1] if text.strip()
        ]
        return [*blocks, {"type": "text", "text": pieces[-1]}] if pieces[-1].strip() else blocks

    def _drop(self, field: str) -> None:
        self._diagnostics.report(
            "field_dropped", f"`{field}` cannot be sent to this upstream and was dropped"
        )

    # -- tools

    def _tools(
        self,
        specs: list[ToolSpec],
        choice: UpstreamToolChoice,
        history: History,
        web_search: WebSearchTool | None,
    ) -> None:
        hosted = [] if web_search is None else [self._web_search(web_search)]
        if not specs and not hosted:
            specs, choice = self._tools_from_history(history), UpstreamToolChoice("none")
        if not specs and not hosted:
            return
        self._body["tools"] = [*map(self._tool, specs), *hosted]
        if choice.mode in ("required", "tool") and not self._traits.forced_tools:
            raise DecodeError(
                'this model does not support a forced tool call; use "auto" or "none"', "tool_choice"
            )
        chosen: dict[str, Any] = {"type": CHOICES[choice.mode]} if choice.mode else {}
        if choice.name:
            chosen["name"] = choice.name
        if self._request.parallel_tool_calls is False and choice.mode != "none":
            if self._quirks.parallel_tool_calls:
                chosen = {"type": "auto", **chosen, "disable_parallel_tool_use": True}
            else:
                self._drop("parallel_tool_calls")
        if not chosen:
            return
        if self._quirks.tool_choice:
            self._body["tool_choice"] = chosen
        elif chosen != {"type": "auto"}:
            self._drop("tool_choice")

    def _tools_from_history(self, history: History) -> list[ToolSpec]:
        """Declare the tools of earlier calls if the request has none: calls to unknown tools are rejected."""
        pieces = [piece for turn in history.turns if isinstance(turn, AssistantTurn) for piece in turn.pieces]
        names = dict.fromkeys(piece.name for piece in pieces if isinstance(piece, Call))
        if names:
            self._diagnostics.report(
                "tools_added",
                "the tools used earlier in the conversation were declared, because the upstream requires it; "
                "the model is not allowed to call them",
            )
        return [ToolSpec(name, parameters={"type": "object", "properties": {}}) for name in names]

    def _web_search(self, tool: WebSearchTool) -> dict[str, Any]:
        rendered: dict[str, Any] = {"type": _WEB_SEARCH_VERSION, "name": WEB_SEARCH}
        for name in ("allowed_domains", "blocked_domains"):
            if domains := (tool.filters or {}).get(name):
                rendered[name] = domains
        if tool.user_location:
            rendered["user_location"] = tool.user_location
        if tool.search_context_size:
            self._drop("tools.search_context_size")
        return rendered

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        tool: dict[str, Any] = {"name": spec.name}
        if spec.breakpoint:
            tool[MARK] = placeholder()
        if spec.description:
            tool["description"] = spec.description
        closed = (
            enforceable(spec.parameters, self._budget) if spec.strict and self._quirks.strict_tools else None
        )
        if closed is not None:
            return {**tool, "input_schema": closed, "strict": True}
        if spec.strict:
            self._diagnostics.report(
                "strict_dropped", f"the schema of the tool {spec.name!r} cannot be enforced here"
            )
        tool["input_schema"], changed = tool_schema(spec.parameters, self._budget)
        if changed:
            self._diagnostics.report(
                "schema_changed", f"the schema of the tool {spec.name!r} was converted to a plain object"
            )
        return tool

    # -- the output

    def _format(self) -> None:
        text = self._request.text
        if not text:
            return
        if text.verbosity and text.verbosity != "medium":
            self._drop("text.verbosity")
        for name in text.extra or ():
            self._drop(f"text.{name}")
        format = text.format
        if isinstance(format, JsonSchemaFormat):
            self._schema_format(format.schema or {"type": "object"})
        elif isinstance(format, JsonObjectFormat):
            self._ask_in_prompt(_OBJECT_REQUEST, "this upstream has no JSON mode")
        elif format and not isinstance(format, TextFormat) and format.type:
            raise DecodeError(
                f"this upstream does not support the format {format.type!r}", "text.format.type"
            )

    def _schema_format(self, schema: dict[str, Any]) -> None:
        closed = enforceable(schema, self._budget) if self._quirks.json_schema else None
        if closed is not None:
            self._output_config()["format"] = {"type": "json_schema", "schema": closed}
        else:
            encoded = msgspec.json.encode(schema).decode()
            self._ask_in_prompt(_SCHEMA_REQUEST + encoded, "this upstream cannot enforce the schema")

    def _ask_in_prompt(self, text: str, reason: str) -> None:
        self._extra_system.append(text)
        self._diagnostics.report(
            "format_weakened", f"{reason}; an instruction in the prompt asks for this format instead"
        )

    def _output_config(self) -> dict[str, Any]:
        config: dict[str, Any] = self._body.setdefault("output_config", {})
        return config

    def _thinking(self, choice: UpstreamToolChoice, messages: list[dict[str, Any]]) -> Thinking:
        reasoning = self._request.reasoning or ReasoningConfig()
        for name in reasoning.extra or ():
            self._drop(f"reasoning.{name}")
        request = ThinkingRequest(
            reasoning=reasoning,
            max_tokens=self._body["max_tokens"],
            forced_tool=choice.mode in ("required", "tool"),
            unsigned_loop=loop_without_thinking(messages),
        )
        thinking = thinking_of(self._traits, request, self._diagnostics)
        if thinking.config:
            self._body["thinking"] = thinking.config
        if thinking.effort:
            self._output_config()["effort"] = thinking.effort
        requested = reasoning.effort or ""
        if requested not in ("", "none") and (echo := thinking.echo(requested)) != requested:
            self._echo["effort"] = echo
        return thinking

    def _sampling(self, thinking: Thinking) -> None:
        """Set the sampling parameters: not with thinking, not on newer models, and only one of the two."""
        allowed = self._traits.sampling and not thinking.is_on
        temperature, top_p = self._request.temperature, self._request.top_p
        if temperature is not UNSET:
            if not allowed:
                self._drop("temperature")
            else:
                self._body["temperature"] = min(temperature, 1.0)
                if temperature > 1:
                    self._diagnostics.report(
                        "temperature_changed", f"the temperature {temperature} was lowered to 1, the maximum"
                    )
        if top_p is not UNSET:
            if allowed and temperature is UNSET:
                self._body["top_p"] = top_p
            else:
                self._drop("top_p")

    # -- other fields

    def _metadata(self) -> None:
        request = self._request
        user = request.safety_identifier or request.user
        if user:
            self._body["metadata"] = {"user_id": user}
        if request.user and request.user != user:
            self._drop("user")
        if request.service_tier in TIERS:
            self._body["service_tier"] = TIERS[request.service_tier]
            if request.service_tier not in KNOWN_TIERS:
                self._diagnostics.report(
                    "service_tier_changed", f"the tier {request.service_tier!r} became the fastest one here"
                )
                self._echo["service_tier"] = TIERS[request.service_tier]
        elif request.service_tier:
            self._drop("service_tier")
            self._echo["service_tier"] = None

    def _unmapped(self) -> None:
        for name in unsupported_includes(self._request):
            self._drop(name)
        for name, value in (self._request.extra or {}).items():
            if name == "stop" and (stops := _texts(value)):
                self._body["stop_sequences"] = stops
            elif value is not None:
                self._drop(name)
        for name in _DROPPED:
            value = getattr(self._request, name)
            if value is not UNSET and value != _DEFAULTS.get(name, UNSET):
                self._drop(name)


def _texts(value: Any) -> list[str]:
    """Return the stop sequences of a text or a list of texts. Blank ones are dropped: they are rejected."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, str) and each.strip()]
