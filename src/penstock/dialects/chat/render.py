"""Renders a request for Chat Completions: `POST chat/completions`.

Most vendors implement a part of OpenAI's Chat Completions. What a vendor supports beyond the common part is
in its preset; a field that is set and cannot be sent adds a diagnostic (ask E6).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from penstock.dialects.breakpoints import BREAKPOINT, any_breakpoint
from penstock.dialects.chat.messages import Messages
from penstock.dialects.history import history_of
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.presets.efforts import EFFORTS, nearest
from penstock.dialects.presets.preset import SAMPLER_FIELDS
from penstock.dialects.presets.rows import ORIGINAL_TIERS, vendor_facts
from penstock.dialects.schemas import SchemaBudget, inlined
from penstock.dialects.toolset import ToolSpec, UpstreamToolChoice, choice_of, tools_of
from penstock.errors import DecodeError
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import (
    LOGPROBS,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
    refuse_template,
    unsupported_includes,
)
from penstock.protocol.tools import AllowedTools
from penstock.stream.diagnostics import Diagnostics

HANDLED: dict[str, str] = {
    "model": "mapped",
    "input": "mapped",
    "instructions": "mapped",
    "previous_response_id": "gateway",
    "conversation": "gateway",
    "include": "mapped",  # logprobs; encrypted reasoning is always returned
    "tools": "mapped",
    "tool_choice": "mapped",
    "parallel_tool_calls": "mapped",
    "max_tool_calls": "dropped",
    "text": "mapped",
    "reasoning": "mapped",
    "temperature": "mapped",
    "top_p": "mapped",
    "presence_penalty": "mapped",
    "frequency_penalty": "mapped",
    "top_logprobs": "mapped",
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
    "extra": "mapped",  # such as `stop`, which Responses does not have
}
"""How each field of a request is handled. Mapped fields that a vendor does not support are dropped."""
_DROPPED = tuple(name for name, handling in HANDLED.items() if handling == "dropped")

_EVERYWHERE = ("temperature", "top_p", "presence_penalty", "frequency_penalty")

VENDOR_FIELDS = (
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "user",
)
"""Fields that are sent unchanged to the vendors that support them (`Preset.optional_fields`)."""

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "prompt_cache_retention": ("in_memory", "in-memory"),
}
"""Values that request the default behaviour: dropping them needs no diagnostic."""

_EXTRAS = frozenset({"stop", "seed", "logit_bias"})


def render(plan: Plan) -> UpstreamRequest:
    return _ChatRenderer(plan).request()


class _ChatRenderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = plan.request
        self._vendor = vendor_facts(plan.target.vendor)
        self._quirks = plan.target.quirks
        self._diagnostics = Diagnostics()
        self._body: dict[str, Any] = {"model": plan.target.model, "stream": True}
        self._headers: dict[str, str] = {}
        self._budget = SchemaBudget()
        self._more_system: list[str] = []
        self._echo: dict[str, str | None] = {}

    def request(self) -> UpstreamRequest:
        refuse_template(self._request)
        history = history_of(self._plan)
        if self._quirks.stream_usage:
            self._body["stream_options"] = {"include_usage": True}
        tool_diagnostics = self._tools()
        self._format()
        self._effort()
        self._numbers()
        self._vendor_fields()
        self._unmapped()
        thinks = self._body.get("thinking") == {"type": "enabled"}
        messages = Messages(self._plan.target, history, self._diagnostics, thinks=thinks).render(
            "\n\n".join(self._more_system)
        )
        if not messages:
            raise DecodeError("the request has neither input nor instructions to send", "input")
        # Last, so that the bytes of one turn are a prefix of the next turn's (ask D5).
        self._body["messages"] = messages
        diagnostics = [*history.diagnostics, *tool_diagnostics, *self._diagnostics.entries]
        return UpstreamRequest("chat/completions", self._body, self._headers, diagnostics, self._echo)

    def _drop(self, field: str) -> None:
        self._diagnostics.report(
            "field_dropped", f"`{field}` cannot be sent to this upstream and was dropped"
        )

    # -- tools

    def _tools(self) -> list[Diagnostic]:
        sends_allowed = self._vendor.allowed_tools
        specs, diagnostics = tools_of(self._plan, allowed_only=not sends_allowed)
        choice = choice_of(self._plan, specs)
        if not self._quirks.tool_choice:
            specs, choice = self._without_choice(specs, choice)
        if not specs:
            return diagnostics
        self._body["tools"] = [self._tool(spec) for spec in specs]
        if sends_allowed and isinstance(self._request.tool_choice, AllowedTools) and choice.mode != "none":
            self._body["tool_choice"] = self._allowed()
        elif choice.mode:
            self._body["tool_choice"] = _named(choice.name) if choice.name else choice.mode
        parallel = self._request.parallel_tool_calls
        if parallel is not UNSET and self._quirks.parallel_tool_calls:
            self._body["parallel_tool_calls"] = parallel
        elif parallel is False:
            self._drop("parallel_tool_calls")
        return diagnostics

    def _without_choice(
        self, specs: list[ToolSpec], choice: UpstreamToolChoice
    ) -> tuple[list[ToolSpec], UpstreamToolChoice]:
        """Restrict the declared tools instead, for an upstream without `tool_choice`."""
        if choice.mode == "none":
            return [], UpstreamToolChoice()
        if choice.mode in ("required", "tool"):
            self._diagnostics.report(
                "tool_choice_weakened",
                "this upstream cannot be forced to call a tool; the model may answer without a call",
            )
        return [spec for spec in specs if choice.name in ("", spec.name)], UpstreamToolChoice()

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        parameters = spec.parameters
        if self._vendor.inline_schemas:
            parameters, cut = inlined(parameters, self._budget)
            if cut:
                self._diagnostics.report(
                    "schema_cut",
                    f"the schema of the tool {spec.name!r} is recursive or too large; it was cut",
                )
        function: dict[str, Any] = {"name": spec.name}
        if spec.description:
            function["description"] = spec.description
        function["parameters"] = parameters
        if spec.strict is not None and self._quirks.strict_tools:
            function["strict"] = spec.strict
        elif spec.strict:
            self._drop("tools.strict")
        return {"type": "function", "function": function}

    def _allowed(self) -> dict[str, Any] | str:
        """Return the `tool_choice`. All tools stay declared, which keeps the prompt's prefix (ask D5)."""
        allowed, diagnostics = tools_of(self._plan)
        choice = choice_of(self._plan, allowed)
        if not allowed:
            self._diagnostics.report(diagnostics[-1].code, diagnostics[-1].message)
            return "none"
        tools = [_named(spec.name) for spec in allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}

    # -- the answer

    def _format(self) -> None:
        text = self._request.text
        if not text:
            return
        if text.verbosity and "verbosity" in self._vendor.optional_fields:
            self._body["verbosity"] = text.verbosity
        elif text.verbosity and text.verbosity != "medium":
            self._drop("text.verbosity")
        for name in text.extra or ():
            self._drop(f"text.{name}")
        format = text.format
        if isinstance(format, JsonSchemaFormat):
            self._schema_format(format)
        elif isinstance(format, JsonObjectFormat):
            self._body["response_format"] = {"type": "json_object"}
        elif format and not isinstance(format, TextFormat) and format.type:
            raise DecodeError(
                f"this upstream does not support the format {format.type!r}", "text.format.type"
            )

    def _schema_format(self, format: JsonSchemaFormat) -> None:
        schema = format.schema or {"type": "object"}
        if not self._quirks.json_schema:
            self._body["response_format"] = {"type": "json_object"}
            self._more_system.append(_SCHEMA_REQUEST + msgspec.json.encode(schema).decode())
            self._diagnostics.report(
                "format_weakened",
                "this upstream does not support JSON schemas; the schema was sent as an instruction",
            )
            return
        described: dict[str, Any] = {"name": format.name or "answer", "schema": schema}
        if format.description:
            described["description"] = format.description
        if isinstance(format.strict, bool):
            described["strict"] = format.strict
        self._body["response_format"] = {"type": "json_schema", "json_schema": described}

    def _effort(self) -> None:
        reasoning = self._request.reasoning
        if not reasoning:
            return
        if reasoning.summary not in (UNSET, None, "auto"):
            self._drop("reasoning.summary")
        for name in reasoning.extra or ():
            self._drop(f"reasoning.{name}")
        if not reasoning.effort:
            return
        effort = nearest(self._quirks.effort, reasoning.effort)
        if effort is None:
            self._drop("reasoning.effort")
            self._echo["effort"] = None
            return
        if effort != reasoning.effort:
            self._echo["effort"] = effort
            self._diagnostics.report(
                "effort_changed", f"the effort {reasoning.effort!r} was changed to {effort!r}"
            )
        self._body.update(EFFORTS[self._quirks.effort][effort])

    def _numbers(self) -> None:
        request = self._request
        for name in _EVERYWHERE:
            if (value := getattr(request, name)) is not UNSET:
                self._body[name] = value
        if request.max_output_tokens is not UNSET:
            self._body[self._quirks.max_tokens_field] = request.max_output_tokens
        for name in unsupported_includes(request, {LOGPROBS}):
            self._drop(name)
        if LOGPROBS in (request.include or ()) or request.top_logprobs:
            self._body["logprobs"] = True
        if request.top_logprobs:
            self._body["top_logprobs"] = request.top_logprobs

    # -- the rest

    def _vendor_fields(self) -> None:
        header = self._vendor.cache_key_header
        routes = bool(header) or "prompt_cache_key" in self._vendor.optional_fields
        derived = {"prompt_cache_key": self._plan.cache_key} if routes and self._plan.cache_key else {}
        for name in VENDOR_FIELDS:
            value = getattr(self._request, name)
            value = derived.get(name, UNSET) if value is UNSET else value
            if value is UNSET:
                continue
            is_known = value not in ORIGINAL_TIERS or self._vendor.original_responses
            if name in self._vendor.optional_fields and (name != "service_tier" or is_known):
                self._body[name] = value
            elif name == "prompt_cache_key" and header and _is_header(value):
                self._headers[header] = value
            elif value not in _DEFAULTS.get(name, ()):
                self._drop(name)
                if name == "service_tier":
                    self._echo[name] = None

    def _unmapped(self) -> None:
        if any_breakpoint(self._request):
            self._drop(BREAKPOINT)
        known = _EXTRAS | (self._vendor.optional_fields & SAMPLER_FIELDS)
        for name, value in (self._request.extra or {}).items():
            if name in known and value is not None:
                self._body[name] = value
            elif value is not None:
                self._drop(name)
        for name in _DROPPED:
            value = getattr(self._request, name)
            if value is not UNSET and value not in _DEFAULTS.get(name, ()):
                self._drop(name)


_SCHEMA_REQUEST = "Answer with one JSON object and nothing else. It must match this JSON schema:\n"


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable()
