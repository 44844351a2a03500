"""Renders a request for another Responses endpoint: `POST responses`.

The format is the same, so most of a request is sent unchanged. The exceptions: state, which is ours and not
the endpoint's (`store` is false and the whole history is sent), ids that the endpoint does not know, and
types that only OpenAI supports.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.presets.efforts import EFFORTS, nearest
from penstock.dialects.presets.rows import ORIGINAL_TIERS, vendor_facts
from penstock.dialects.responses.input_items import InputItems
from penstock.dialects.toolset import ToolSpec, UpstreamToolChoice, choice_of, tools_of
from penstock.errors import DecodeError
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import (
    ENCRYPTED_REASONING,
    SPECIFIED_INCLUDES,
    JsonSchemaFormat,
    refuse_template,
    unsupported_includes,
)
from penstock.protocol.tools import CustomTool, FunctionTool, ToolReference
from penstock.protocol.wire import to_builtins
from penstock.stream.diagnostics import Diagnostics

HANDLED: dict[str, str] = {
    "model": "mapped",
    "input": "mapped",
    "instructions": "mapped",
    "previous_response_id": "gateway",
    "conversation": "gateway",
    "include": "mapped",
    "tools": "mapped",
    "tool_choice": "mapped",
    "parallel_tool_calls": "mapped",
    "max_tool_calls": "mapped",
    "text": "mapped",
    "reasoning": "mapped",
    "temperature": "mapped",
    "top_p": "mapped",
    "presence_penalty": "mapped",
    "frequency_penalty": "mapped",
    "top_logprobs": "mapped",
    "max_output_tokens": "mapped",
    "truncation": "mapped",
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
    "context_management": "mapped",
    "moderation": "mapped",
    "access_programs": "mapped",
    "image": "mapped",
    "extra": "mapped",  # unchanged: the endpoint supports it or refuses it
}
"""How each field of a request is handled. Mapped fields that a vendor does not support are dropped."""

_UNCHANGED = (
    "max_tool_calls",
    "reasoning",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "max_output_tokens",
    "truncation",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "user",
    "context_management",
    "moderation",
    "access_programs",
    "image",
)

_NOT_IN_ORIGINAL = frozenset({"presence_penalty", "frequency_penalty"})
"""In the specification, but refused by OpenAI."""
_ONLY_IN_ORIGINAL = frozenset(
    {
        "prompt_cache_retention",
        "prompt_cache_options",
        "user",
        "context_management",
        "moderation",
        "access_programs",
        "image",
    }
)

_REASONING = ("effort", "summary")
"""The fields of `reasoning` in the specification; OpenAI has more."""

_SCHEMA_REQUEST = "Answer with one JSON object and nothing else. It must match this JSON schema:\n"


def render(plan: Plan) -> UpstreamRequest:
    return _ResponsesRenderer(plan).request()


class _ResponsesRenderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = plan.request
        self._quirks = plan.target.quirks
        vendor = vendor_facts(plan.target.vendor)
        self._is_original = vendor.original_responses
        self._takes_cache_key = "prompt_cache_key" in vendor.optional_fields
        self._diagnostics = Diagnostics()
        self._echo: dict[str, str | None] = {}
        self._body: dict[str, Any] = {
            "model": plan.target.model,
            "stream": True,
            "store": False,
            "include": self._include(),
        }

    def _include(self) -> list[str]:
        """Return what to include: for OpenAI everything, for other endpoints what is in the specification."""
        include = [*(self._request.include or ())]
        if not self._is_original:
            for name in unsupported_includes(self._request, SPECIFIED_INCLUDES):
                self._drop(name)
            include = [name for name in include if name in SPECIFIED_INCLUDES]
        return include if ENCRYPTED_REASONING in include else [*include, ENCRYPTED_REASONING]

    def request(self) -> UpstreamRequest:
        refuse_template(self._request)
        input_items = InputItems(self._plan, self._diagnostics)
        items = input_items.items()
        tool_diagnostics = self._native_tools() if self._is_original else self._function_tools()
        format_instruction = self._format()
        instructions = [self._request.instructions or "", *input_items.system, format_instruction]
        if any(instructions):
            self._body["instructions"] = "\n\n".join(text for text in instructions if text)
        elif not items:
            raise DecodeError("the request has neither input nor instructions to send", "input")
        self._copy_fields()
        # Last, so that the bytes of one turn are a prefix of the next turn's (ask D5).
        self._body["input"] = items
        diagnostics = [*tool_diagnostics, *self._diagnostics.entries]
        return UpstreamRequest("responses", self._body, {}, diagnostics, self._echo)

    def _drop(self, field: str) -> None:
        self._diagnostics.report(
            "field_dropped", f"`{field}` cannot be sent to this upstream and was dropped"
        )

    # -- tools

    def _native_tools(self) -> list[Diagnostic]:
        """Send all tools: OpenAI supports every type. Only invalid names are replaced."""
        tools: dict[bytes, dict[str, Any]] = {}
        for tool in self._request.tools or ():
            rendered = to_builtins(tool)
            if isinstance(tool, FunctionTool | CustomTool):
                rendered["name"] = self._name(tool.name)
            # A tool that is declared twice is sent once (ask B11).
            tools.setdefault(msgspec.json.encode(rendered, order="deterministic"), rendered)
        if tools:
            self._body["tools"] = list(tools.values())
        choice = self._request.tool_choice
        if choice is not UNSET:
            self._body["tool_choice"] = to_builtins(choice)
        if isinstance(choice, ToolReference) and choice.name and not choice.namespace:
            self._body["tool_choice"]["name"] = self._name(choice.name)
        if self._request.parallel_tool_calls is not UNSET:
            self._body["parallel_tool_calls"] = self._request.parallel_tool_calls
        return []

    def _name(self, name: str) -> str:
        identity = self._plan.tools.declared(name)
        return identity.upstream_name if identity is not None else name

    def _function_tools(self) -> list[Diagnostic]:
        specs, diagnostics = tools_of(self._plan)
        choice = choice_of(self._plan, specs)
        if not specs:
            return diagnostics
        self._body["tools"] = [self._tool(spec) for spec in specs]
        if choice.mode:
            self._body["tool_choice"] = _chosen(choice)
        parallel = self._request.parallel_tool_calls
        if parallel is not UNSET and self._quirks.parallel_tool_calls:
            self._body["parallel_tool_calls"] = parallel
        elif parallel is False:
            self._drop("parallel_tool_calls")
        return diagnostics

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Render a function. `strict` defaults to true here, which suits the schema of a custom tool's input
        (ask H2)."""
        tool: dict[str, Any] = {"type": "function", "name": spec.name, "parameters": spec.parameters}
        if spec.description:
            tool["description"] = spec.description
        if spec.strict is not None and self._quirks.strict_tools:
            tool["strict"] = spec.strict
        elif spec.strict:
            self._drop("tools.strict")
        return tool

    # -- the rest

    def _format(self) -> str:
        """Add `text`; return an instruction for a format that the upstream does not support (ask H1)."""
        text = self._request.text
        if not text:
            return ""
        rendered = to_builtins(text)
        instruction = ""
        if isinstance(text.format, JsonSchemaFormat) and not (self._quirks.json_schema or self._is_original):
            rendered["format"] = {"type": "json_object"}
            instruction = _SCHEMA_REQUEST + msgspec.json.encode(text.format.schema or {}).decode()
            self._diagnostics.report(
                "format_weakened",
                "this upstream does not support JSON schemas; the schema was sent as an instruction",
            )
        self._body["text"] = rendered
        return instruction

    def _copy_fields(self) -> None:
        unsupported = _NOT_IN_ORIGINAL if self._is_original else _ONLY_IN_ORIGINAL
        for name in _UNCHANGED:
            value = getattr(self._request, name)
            if value is UNSET:
                continue
            if name in unsupported:
                self._drop(name)
            else:
                self._body[name] = to_builtins(value)
        for name, value in (self._request.extra or {}).items():
            self._body.setdefault(name, value)
        if self._takes_cache_key and self._plan.cache_key:
            self._body.setdefault("prompt_cache_key", self._plan.cache_key)
        if not self._is_original:
            self._without_original_values()

    def _without_original_values(self) -> None:
        """Replace or drop values that only OpenAI has: other endpoints refuse the whole request."""
        if self._body.get("service_tier") in ORIGINAL_TIERS:
            del self._body["service_tier"]
            self._drop("service_tier")
            self._echo["service_tier"] = None
        reasoning = self._body.get("reasoning")
        if not isinstance(reasoning, dict):
            return
        for name in [name for name in reasoning if name not in _REASONING]:
            del reasoning[name]
            self._drop(f"reasoning.{name}")
        if not (requested := reasoning.get("effort")):
            return
        row = self._quirks.effort
        effort = nearest(row if _names_efforts(row) else "responses", requested)
        if effort is None:
            self._drop("reasoning.effort")
            del reasoning["effort"]
        elif effort != requested:
            self._diagnostics.report("effort_changed", f"the effort {requested!r} was changed to {effort!r}")
            reasoning["effort"] = effort
        if effort != requested:
            self._echo["effort"] = effort


def _names_efforts(row: str) -> bool:
    """Return whether a row of efforts contains names, which this format can send."""
    known = EFFORTS.get(row, {})
    return bool(known) and all(known[effort] == {"reasoning_effort": effort} for effort in known)


def _chosen(choice: UpstreamToolChoice) -> str | dict[str, Any]:
    return {"type": "function", "name": choice.name} if choice.name else choice.mode
