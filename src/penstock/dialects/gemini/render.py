"""Render a request for Gemini: `POST models/{model}:streamGenerateContent`. It always streams."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET

from penstock.dialects.breakpoints import BREAKPOINT, any_breakpoint
from penstock.dialects.gemini.messages import contents_of
from penstock.dialects.gemini.schema import CleanedSchema
from penstock.dialects.gemini.thinking import echo_of, thinking_of, traits_of
from penstock.dialects.history import history_of
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.schemas import SchemaBudget
from penstock.dialects.toolset import ToolSpec, choice_of, tools_of, web_search_of
from penstock.errors import DecodeError
from penstock.protocol.request import (
    LOGPROBS,
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
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
    "include": "mapped",  # logprobs; encrypted reasoning is always sealed
    "tools": "mapped",
    "tool_choice": "mapped",
    "parallel_tool_calls": "dropped",
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
    "safety_identifier": "dropped",
    "prompt_cache_key": "dropped",  # Gemini caches automatically
    "client_metadata": "gateway",
    "prompt_cache_retention": "dropped",
    "prompt_cache_options": "dropped",
    "user": "dropped",
    "prompt": "refused",
    "context_management": "dropped",
    "moderation": "dropped",
    "access_programs": "dropped",
    "image": "dropped",
    "extra": "mapped",  # `stop` and `seed`; the rest is dropped by name
}
"""How each field of a request is handled."""
_DROPPED = tuple(name for name, handling in HANDLED.items() if handling == "dropped")

NUMBERS: dict[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "max_output_tokens": "maxOutputTokens",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""Fields of the generation config, by field of the request."""

TIERS: dict[str, str] = {
    "default": "standard",
    "flex": "flex",
    "priority": "priority",
    "ultrafast": "priority",
}

_NEAREST_TIERS = ("ultrafast",)
"""Tiers without a counterpart, for which the nearest one is sent."""

MODES: dict[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}

_DEFAULTS: dict[str, Any] = {
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "prompt_cache_retention": "in_memory",
}
"""Values that request the default behaviour; dropping them needs no diagnostic."""

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*(/[A-Za-z0-9][A-Za-z0-9._@-]*)*")
"""Valid model names. The name is part of the URL path, so it must not lead elsewhere."""

_JSON = "application/json"
_OBJECT_REQUEST = "Answer with one JSON object and nothing else."
_SCHEMA_REQUEST = "Answer with one JSON value and nothing else. It must match this JSON schema:\n"


def render(plan: Plan) -> UpstreamRequest:
    return _GeminiRenderer(plan).request()


class _GeminiRenderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = plan.request
        self._quirks = plan.target.quirks
        self._traits = traits_of(plan.target)
        self._diagnostics = Diagnostics()
        self._body: dict[str, Any] = {}
        self._config: dict[str, Any] = {}
        self._budget = SchemaBudget()
        self._extra_system: list[str] = []
        self._echo: dict[str, str | None] = {}

    def request(self) -> UpstreamRequest:
        refuse_template(self._request)
        history = history_of(self._plan)
        web_search = web_search_of(self._plan)
        specs, tool_diagnostics = tools_of(self._plan, allowed_only=False, web_search=web_search)
        if web_search is not None and (specs or self._request.tool_choice not in (UNSET, "auto")):
            # Gemini refuses its search together with functions, and cannot be forced to use it.
            specs, tool_diagnostics = tools_of(self._plan, allowed_only=False)
            web_search = None
        self._tools(specs)
        if web_search is not None:
            self._body["tools"] = [{"googleSearch": {}}]
        self._format(has_tools=bool(specs))
        self._generation_config()
        self._unmapped()
        contents = contents_of(self._plan, history, self._traits, self._diagnostics)
        system = "\n\n".join([*history.system, *self._extra_system])
        if system:
            self._body["systemInstruction"] = {"parts": [{"text": system}]}
        if self._config:
            self._body["generationConfig"] = self._config
        # Last, so that the bytes of one turn are a prefix of the next turn's (ask D5).
        self._body["contents"] = contents
        diagnostics = [*history.diagnostics, *tool_diagnostics, *self._diagnostics.entries]
        return UpstreamRequest(self._path(), self._body, {}, diagnostics, self._echo)

    def _path(self) -> str:
        model = self._plan.target.model
        if not _MODEL.fullmatch(model):
            raise DecodeError(f"{model!r} is not a valid model name for this upstream", "model")
        path = model if "/" in model else f"models/{model}"
        return f"{path}:streamGenerateContent?alt=sse"

    def _drop(self, field: str) -> None:
        self._diagnostics.report(
            "field_dropped", f"`{field}` cannot be sent to this upstream and was dropped"
        )

    # -- tools

    def _tools(self, specs: list[ToolSpec]) -> None:
        """Declare all tools, even if only some are allowed: the prompt prefix must not change (ask D5)."""
        allowed, _ = tools_of(self._plan)
        choice = choice_of(self._plan, allowed)
        if not specs:
            return
        self._body["tools"] = [{"functionDeclarations": [self._tool(spec) for spec in specs]}]
        config: dict[str, Any] = {"mode": MODES[choice.mode]} if choice.mode else {}
        if choice.name:
            config["allowedFunctionNames"] = [choice.name]
        elif isinstance(self._request.tool_choice, AllowedTools) and choice.mode != "none":
            # `AUTO` does not accept a list of names; `VALIDATED` is the same with one.
            config = {"mode": {"auto": "VALIDATED", "required": "ANY"}[choice.mode] if allowed else "NONE"}
            config |= {"allowedFunctionNames": [spec.name for spec in allowed]} if allowed else {}
        if config and self._quirks.tool_choice:
            self._body["toolConfig"] = {"functionCallingConfig": config}
        elif config and choice.mode != "auto":
            self._drop("tool_choice")

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        function: dict[str, Any] = {"name": spec.name}
        if spec.description:
            function["description"] = spec.description
        if spec.strict:
            self._drop("tools.strict")
        cleaned = CleanedSchema(spec.parameters, self._budget)
        if cleaned.cut:
            self._diagnostics.report(
                "schema_cut", f"the recursive schema of the tool {spec.name!r} was truncated"
            )
        if cleaned.changed:
            self._diagnostics.report("schema_changed", f"the schema of the tool {spec.name!r} was simplified")
        if cleaned.schema.get("properties"):
            # Gemini rejects an object without properties, but accepts a function without parameters.
            function["parameters"] = cleaned.schema
        return function

    # -- the output

    def _format(self, *, has_tools: bool) -> None:
        text = self._request.text
        if not text:
            return
        if text.verbosity and text.verbosity != "medium":
            self._drop("text.verbosity")
        for name in text.extra or ():
            self._drop(f"text.{name}")
        format = text.format
        if isinstance(format, JsonSchemaFormat | JsonObjectFormat):
            schema = (format.schema or {"type": "object"}) if isinstance(format, JsonSchemaFormat) else None
            self._json(schema, can_enforce=not has_tools or self._traits.json_with_tools)
        elif format and not isinstance(format, TextFormat) and format.type:
            raise DecodeError(
                f"this upstream does not support the format {format.type!r}", "text.format.type"
            )

    def _json(self, schema: dict[str, Any] | None, *, can_enforce: bool) -> None:
        """Request JSON. Older models accept tools or an output format, not both; tools take precedence."""
        if can_enforce:
            self._config["responseMimeType"] = _JSON
        if schema is None:
            if not can_enforce:
                self._ask_in_prompt(
                    _OBJECT_REQUEST, "this model does not support JSON mode together with tools"
                )
        elif can_enforce and self._quirks.json_schema:
            cleaned = CleanedSchema(schema, self._budget)
            self._config["responseSchema"] = cleaned.schema
            if cleaned.cut or cleaned.changed:
                self._diagnostics.report("format_weakened", "the schema of the answer was simplified")
        else:
            encoded = msgspec.json.encode(schema).decode()
            self._ask_in_prompt(_SCHEMA_REQUEST + encoded, "this upstream cannot enforce the schema")

    def _ask_in_prompt(self, text: str, reason: str) -> None:
        self._extra_system.append(text)
        self._diagnostics.report(
            "format_weakened", f"{reason}; an instruction in the prompt asks for this format instead"
        )

    def _generation_config(self) -> None:
        request = self._request
        for name, field in NUMBERS.items():
            if (value := getattr(request, name)) is not UNSET:
                self._config[field] = value
        for name in unsupported_includes(request, {LOGPROBS}):
            self._drop(name)
        if request.top_logprobs or LOGPROBS in (request.include or ()):
            self._config["responseLogprobs"] = True
        if request.top_logprobs:
            self._config["logprobs"] = request.top_logprobs
        reasoning = request.reasoning or ReasoningConfig()
        for name in reasoning.extra or ():
            self._drop(f"reasoning.{name}")
        if thinking := thinking_of(self._traits, reasoning, self._diagnostics):
            self._config["thinkingConfig"] = thinking
        requested = reasoning.effort or ""
        if requested and (echo := echo_of(self._traits, requested)) != requested:
            self._echo["effort"] = echo

    # -- other fields

    def _unmapped(self) -> None:
        if any_breakpoint(self._request):
            self._drop(BREAKPOINT)
        request = self._request
        if request.service_tier in TIERS:
            self._body["serviceTier"] = TIERS[request.service_tier]
            if request.service_tier in _NEAREST_TIERS:
                self._diagnostics.report(
                    "service_tier_changed", f"the tier {request.service_tier!r} became the fastest one here"
                )
                self._echo["service_tier"] = TIERS[request.service_tier]
        elif request.service_tier and request.service_tier != "auto":
            self._drop("service_tier")
            self._echo["service_tier"] = None
        for name, value in (request.extra or {}).items():
            if name == "stop" and (stops := _texts(value)):
                self._config["stopSequences"] = stops
            elif name == "seed" and isinstance(value, int):
                self._config["seed"] = value
            elif value is not None:
                self._drop(name)
        for name in _DROPPED:
            value = getattr(request, name)
            if value is not UNSET and value != _DEFAULTS.get(name, UNSET):
                self._drop(name)


def _texts(value: Any) -> list[str]:
    """Return the stop sequences of a text or a list of texts."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, str) and each]
