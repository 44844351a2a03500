"""The tools of a request, in a form for upstreams that support only functions.

Tools come from `tools` and, later in a conversation, from items of the input (`additional_tools`,
`tool_search_output`; client 1). Declared tools come first and later ones are appended, so that the prompt's
prefix does not change (ask D5). A tool that is neither a function nor a custom tool is left out, with a
diagnostic that names it (ask B3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.dialects.breakpoints import has_breakpoint
from penstock.dialects.plan import Plan, Target
from penstock.dialects.tool_fields import report_tool_fields, without_encryption
from penstock.errors import DecodeError
from penstock.protocol.call_outputs import with_call_ids
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import AdditionalTools, ToolSearchOutput
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import AllowedTools, CustomTool, FunctionTool, NamespaceTool, Tool, ToolReference
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.identity import NAME_LIMIT, ToolIdentity, ToolIdentityMap


class ToolSpec(Struct, frozen=True):
    """A tool under its upstream name. `type` is the declared type: `function` or `custom`.

    `parameters` is always the schema of an object. `strict` is None if the client did not set it: defaults
    differ between upstreams, so it is then not sent either (ask H2).
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    strict: bool | None = None
    type: str = "function"
    breakpoint: bool = False
    """The client asks to cache the prompt up to this tool."""


class UpstreamToolChoice(Struct, frozen=True):
    """`mode` is `auto`, `none`, `required`, `tool` (with the upstream's `name`), or "" if not set."""

    mode: str = ""
    name: str = ""


def declared_tools(request: CreateResponse) -> list[Tool]:
    """Return every tool of a request in a stable order: declared tools, then those of input items."""
    tools = list(request.tools or [])
    items = request.input
    for item in items if isinstance(items, list) else []:
        if isinstance(item, AdditionalTools | ToolSearchOutput):
            tools += item.tools
    return tools


def identities_of(request: CreateResponse) -> ToolIdentityMap:
    """Return the identities of the tools that a request declares."""
    return ToolIdentityMap(declared_tools(request), request.tool_choice)


def plan_for(request: CreateResponse, target: Target, *, accent: str = "openresponses") -> Plan:
    """Return the plan for a request at a target, with the identities of the request's tools.

    Raise `DecodeError` for an output whose call is not certain.
    """
    if isinstance(request.input, list):
        request = replace(request, input=with_call_ids(request.input))
    return Plan(request=request, target=target, tools=identities_of(request), accent=accent)


def tools_of(plan: Plan, *, allowed_only: bool = True) -> tuple[list[ToolSpec], list[Diagnostic]]:
    """Return the tools to offer. `allowed_only` applies `allowed_tools` for upstreams without it."""
    diagnostics = Diagnostics()
    report_tool_fields(declared_tools(plan.request), diagnostics)
    names = _ToolNames(plan)
    specs: dict[str, ToolSpec] = {}
    for namespace, tool in _flat(declared_tools(plan.request)):
        if not isinstance(tool, FunctionTool | CustomTool):
            diagnostics.report(
                "tool_dropped", f"{_shown(tool)} is not supported by this upstream and was left out"
            )
            continue
        identity = names.identity(tool.name, namespace)
        if allowed_only and not names.allows(identity):
            continue
        spec = replace(_spec(tool, identity.upstream_name), breakpoint=has_breakpoint(tool))
        if specs.setdefault(spec.name, spec) != spec:
            diagnostics.report(
                "repeated_tool", f"the tool {tool.name!r} was declared twice; the first declaration is used"
            )
    if names.filters and not specs:
        diagnostics.report("tool_dropped", "this upstream supports none of the allowed tools")
    return list(specs.values()), diagnostics.entries


def choice_of(plan: Plan, specs: list[ToolSpec]) -> UpstreamToolChoice:
    """Return the request's tool choice. Refuse a choice that cannot be honoured, never weaken it (ask E6)."""
    choice = plan.request.tool_choice
    if choice is UNSET:
        return UpstreamToolChoice()
    if isinstance(choice, ToolReference):
        return _one_tool(plan, choice, specs)
    mode = choice.mode if isinstance(choice, AllowedTools) else choice
    if mode not in ("auto", "none", "required"):
        raise DecodeError(f"expected auto, none, required or a tool, got {mode!r}", "tool_choice")
    if mode == "required" and not specs:
        raise DecodeError(f"`required` needs a tool, but {_why_no_tools(plan)}", "tool_choice")
    return UpstreamToolChoice(mode)


def _one_tool(plan: Plan, reference: ToolReference, specs: list[ToolSpec]) -> UpstreamToolChoice:
    names = _ToolNames(plan)
    offered = {spec.name for spec in specs}
    for namespace, tool in _flat(declared_tools(plan.request)):
        if not isinstance(tool, FunctionTool | CustomTool) or tool.name != reference.name:
            continue
        if reference.namespace and reference.namespace != namespace:
            continue
        upstream_name = names.identity(tool.name, namespace).upstream_name
        if upstream_name in offered:
            return UpstreamToolChoice("tool", upstream_name)
    tool_name = reference.name or reference.type
    raise DecodeError(f"the tool {tool_name!r} is not available at this upstream", "tool_choice")


_NAMED = 8
"""The most tools that an error message names: it must not grow with the request."""


def _why_no_tools(plan: Plan) -> str:
    left_out = [tool for _, tool in _flat(declared_tools(plan.request))]
    if not left_out:
        return "no tool is declared"
    named = ", ".join(_shown(tool) for tool in left_out[:_NAMED])
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"this upstream supports none of {named}{more}"


class _ToolNames:
    """The plan's names, and names for tools of items that the plan does not know."""

    def __init__(self, plan: Plan) -> None:
        self._declared = plan.tools
        choice = plan.request.tool_choice
        self._all = ToolIdentityMap(declared_tools(plan.request), choice)
        self.filters = isinstance(choice, AllowedTools) and choice.mode != "none"

    def identity(self, name: str, namespace: str | None) -> ToolIdentity:
        found = self._declared.declared(name, namespace) or self._all.declared(name, namespace)
        assert found is not None, "`_all` contains every tool of the request"
        return found

    def allows(self, identity: ToolIdentity) -> bool:
        """Return whether to declare a tool. `none` still declares all tools: the prefix stays (ask D5)."""
        return not self.filters or self._all.allows(identity)


def _flat(tools: Iterable[Tool], namespace: str | None = None) -> Iterator[tuple[str | None, Tool]]:
    """Yield the tools with their namespaces, named as in the identity map."""
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            inner = tool.name if namespace is None else f"{namespace}.{tool.name}"
            yield from _flat(tool.tools, inner)
        else:
            yield namespace, tool


def _shown(tool: Tool) -> str:
    name = (getattr(tool, "name", "") or "")[:NAME_LIMIT]
    return f"the tool {name!r} of type {tool.type!r}" if name else f"the tool {tool.type!r}"


def _spec(tool: FunctionTool | CustomTool, upstream_name: str) -> ToolSpec:
    if isinstance(tool, CustomTool):
        return ToolSpec(upstream_name, _custom_description(tool), _CUSTOM_PARAMETERS, type="custom")
    strict = tool.strict if isinstance(tool.strict, bool) else None
    parameters = without_encryption(_object_schema(tool.parameters or {}))
    return ToolSpec(upstream_name, tool.description or "", parameters, strict)


_CUSTOM_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""Free text as a function's argument; `penstock.tools.custom` translates it back (ask B1)."""


def _custom_description(tool: CustomTool) -> str:
    """Return the description including the format: a function has no other place for a grammar (ask B1)."""
    format = tool.format or {}
    definition = format.get("definition")
    paragraphs = [tool.description or ""]
    if isinstance(definition, str) and definition:
        syntax = format.get("syntax")
        named = f"{syntax} grammar" if isinstance(syntax, str) and syntax else "grammar"
        paragraphs.append(f"`input` must match this {named}:\n{definition}")
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with `type` and `properties`: some upstreams refuse `{}` (ask B6)."""
    if parameters.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
        return parameters if "type" in parameters else {"type": "object", **parameters}
    required = {"type": "object", "properties": {}}
    return {**{key: value for key, value in required.items() if key not in parameters}, **parameters}
