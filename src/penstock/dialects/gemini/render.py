"""A request for Gemini: `POST models/{model}:streamGenerateContent`. Upstreams are always streamed."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET

from penstock.dialects.gemini.contents import contents_of
from penstock.dialects.gemini.schema import Cleaned
from penstock.dialects.gemini.thinking import thinking_of, traits_of
from penstock.dialects.history import history_of
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.schemas import SchemaBudget
from penstock.dialects.toolset import ToolSpec, choice_of, tools_of
from penstock.errors import DecodeError
from penstock.protocol.request import JsonObjectFormat, JsonSchemaFormat, ReasoningConfig, TextFormat
from penstock.protocol.tools import AllowedTools
from penstock.stream.diagnostics import Diagnostics

HANDLED: dict[str, str] = {
    "model": "mapped",
    "input": "mapped",
    "instructions": "mapped",
    "previous_response_id": "gateway",
    "conversation": "gateway",
    "include": "mapped",  # logprobs; encrypted reasoning is sealed whether or not it is asked for
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
    "prompt_cache_key": "dropped",  # Gemini caches by itself
    "client_metadata": "gateway",
    "prompt_cache_retention": "dropped",
    "user": "dropped",
    "extra": "mapped",  # `stop` and `seed`; the rest is dropped by name
}
"""What becomes of each field of a request."""

NUMBERS: dict[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "max_output_tokens": "maxOutputTokens",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""Fields of the generation config, by the request's."""

TIERS: dict[str, str] = {"default": "standard", "flex": "flex", "priority": "priority"}

MODES: dict[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}

_SAYS_NOTHING: dict[str, Any] = {
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "prompt_cache_retention": "in_memory",
}
"""Values that ask for what happens anyway."""

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*(/[A-Za-z0-9][A-Za-z0-9._@-]*)*")
"""A model's name stands in the path: whatever would lead elsewhere is refused."""

_LOGPROBS = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"
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
        self._told = Diagnostics()
        self._body: dict[str, Any] = {}
        self._config: dict[str, Any] = {}
        self._budget = SchemaBudget()
        self._more_system: list[str] = []

    def request(self) -> UpstreamRequest:
        history = history_of(self._plan)
        specs, specs_told = tools_of(self._plan, allowed_only=False)
        self._tools(specs)
        self._format(has_tools=bool(specs))
        self._numbers()
        self._unmapped()
        contents = contents_of(self._plan, history, self._traits, self._told)
        system = "\n\n".join([*history.system, *self._more_system])
        if system:
            self._body["systemInstruction"] = {"parts": [{"text": system}]}
        if self._config:
            self._body["generationConfig"] = self._config
        # Last, so that the bytes of one turn are the beginning of the next one's (ask D5).
        self._body["contents"] = contents
        diagnostics = [*history.diagnostics, *specs_told, *self._told.told]
        return UpstreamRequest(self._path(), self._body, {}, diagnostics)

    def _path(self) -> str:
        model = self._plan.target.model
        if not _MODEL.fullmatch(model):
            raise DecodeError(f"{model!r} cannot be the name of a model", "model")
        path = model if "/" in model else f"models/{model}"
        return f"{path}:streamGenerateContent?alt=sse"

    def _drop(self, field: str) -> None:
        self._told.tell("field_dropped", f"`{field}` cannot be sent to this upstream and was dropped")

    # -- tools

    def _tools(self, specs: list[ToolSpec]) -> None:
        """All tools stay declared, whatever may be called of them: the prompt's prefix stays (ask D5)."""
        allowed, _ = tools_of(self._plan)
        choice = choice_of(self._plan, allowed)
        if not specs:
            return
        self._body["tools"] = [{"functionDeclarations": [self._tool(spec) for spec in specs]}]
        config: dict[str, Any] = {"mode": MODES[choice.mode]} if choice.mode else {}
        if choice.name:
            config["allowedFunctionNames"] = [choice.name]
        elif isinstance(self._request.tool_choice, AllowedTools) and choice.mode != "none":
            # `AUTO` takes no list of names; `VALIDATED` is the same with one.
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
        cleaned = Cleaned(spec.parameters, self._budget)
        if cleaned.cut:
            self._told.tell("schema_cut", f"a recursive schema of the tool {spec.name!r} was cut")
        if cleaned.changed:
            self._told.tell("schema_changed", f"the schema of the tool {spec.name!r} was made simpler")
        if cleaned.schema.get("properties"):
            # An object without properties is refused, a function without parameters is not.
            function["parameters"] = cleaned.schema
        return function

    # -- the answer

    def _format(self, *, has_tools: bool) -> None:
        text = self._request.text
        if not text:
            return
        if text.verbosity and text.verbosity != "medium":
            self._drop("text.verbosity")
        for name in text.extra or ():
            self._drop(f"text.{name}")
        wanted = text.format
        if isinstance(wanted, JsonSchemaFormat | JsonObjectFormat):
            schema = (wanted.schema or {"type": "object"}) if isinstance(wanted, JsonSchemaFormat) else None
            self._json(schema, can_hold=not has_tools or self._traits.json_with_tools)
        elif wanted and not isinstance(wanted, TextFormat) and wanted.type:
            raise DecodeError(f"this upstream has no format {wanted.type!r}", "text.format.type")

    def _json(self, schema: dict[str, Any] | None, *, can_hold: bool) -> None:
        """Older models take tools or a format for the answer and not both; the tools matter more."""
        if can_hold:
            self._config["responseMimeType"] = _JSON
        if schema is None:
            if not can_hold:
                self._ask(_OBJECT_REQUEST, "this model has no JSON mode beside tools")
        elif can_hold and self._quirks.json_schema:
            cleaned = Cleaned(schema, self._budget)
            self._config["responseSchema"] = cleaned.schema
            if cleaned.cut or cleaned.changed:
                self._told.tell("format_weakened", "the schema of the answer was made simpler")
        else:
            written = msgspec.json.encode(schema).decode()
            self._ask(_SCHEMA_REQUEST + written, "this upstream cannot enforce the schema")

    def _ask(self, text: str, why: str) -> None:
        self._more_system.append(text)
        self._told.tell("format_weakened", f"{why}: the model was asked in words to obey it")

    def _numbers(self) -> None:
        request = self._request
        for name, field in NUMBERS.items():
            if (value := getattr(request, name)) is not UNSET:
                self._config[field] = value
        for name in request.include or ():
            if name not in (_LOGPROBS, _ENCRYPTED):
                self._drop(f"include: {name}")
        if request.top_logprobs or _LOGPROBS in (request.include or ()):
            self._config["responseLogprobs"] = True
        if request.top_logprobs:
            self._config["logprobs"] = request.top_logprobs
        reasoning = request.reasoning or ReasoningConfig()
        for name in reasoning.extra or ():
            self._drop(f"reasoning.{name}")
        if thinking := thinking_of(self._traits, reasoning, self._told):
            self._config["thinkingConfig"] = thinking

    # -- the rest

    def _unmapped(self) -> None:
        request = self._request
        if request.service_tier in TIERS:
            self._body["serviceTier"] = TIERS[request.service_tier]
        elif request.service_tier and request.service_tier != "auto":
            self._drop("service_tier")
        for name, value in (request.extra or {}).items():
            if name == "stop" and (stops := _texts(value)):
                self._config["stopSequences"] = stops
            elif name == "seed" and isinstance(value, int):
                self._config["seed"] = value
            elif value is not None:
                self._drop(name)
        for name, handling in HANDLED.items():
            value = getattr(request, name)
            if handling == "dropped" and value is not UNSET and value != _SAYS_NOTHING.get(name, UNSET):
                self._drop(name)


def _texts(value: Any) -> list[str]:
    """`stop` is a text or a list of texts."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, str) and each]
