"""The tools of a request as an upstream that knows only functions can be offered them.

Tools come from `tools` and, later in a conversation, from items of the input (`additional_tools`,
`tool_search_output`; client 1). The declared ones come first and the later ones are appended: the
prompt's prefix stays what it was (ask D5). What is no function and no custom tool is left out with a
diagnostic that names it (ask B3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, Struct

from penstock.dialects.plan import Plan
from penstock.errors import DecodeError
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import AdditionalTools, ToolSearchOutput
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import AllowedTools, CustomTool, FunctionTool, NamespaceTool, Tool, ToolReference
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.identity import NAME_LIMIT, ToolIdentity, ToolIdentityMap


class ToolSpec(Struct, frozen=True):
    """A tool under its upstream name. `type` is what the client declared: `function` or `custom`.

    `parameters` is always the schema of an object. `strict` is None where the client said nothing: defaults
    differ between upstreams, and ours is to say nothing either (ask H2).
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    strict: bool | None = None
    type: str = "function"


class UpstreamToolChoice(Struct, frozen=True):
    """`mode` is `auto`, `none`, `required`, `tool` (then `name` is the upstream's) or "" for unsaid."""

    mode: str = ""
    name: str = ""


def declared_tools(request: CreateResponse) -> list[Tool]:
    """Every tool of a request in stable order: the declared ones, then those of its items."""
    tools = list(request.tools or [])
    items = request.input
    for item in items if isinstance(items, list) else []:
        if isinstance(item, AdditionalTools | ToolSearchOutput):
            tools += item.tools
    return tools


def tools_of(plan: Plan, *, allowed_only: bool = True) -> tuple[list[ToolSpec], list[Diagnostic]]:
    """The tools to offer. `allowed_only` leaves out what `allowed_tools` does, for upstreams without it."""
    told = Diagnostics()
    names = _ToolNames(plan)
    specs: dict[str, ToolSpec] = {}
    for namespace, tool in _flat(declared_tools(plan.request)):
        if not isinstance(tool, FunctionTool | CustomTool):
            told.tell("tool_dropped", f"{_called(tool)} cannot be offered to this upstream")
            continue
        identity = names.identity(tool.name, namespace)
        if allowed_only and not names.allows(identity):
            continue
        spec = _spec(tool, identity.upstream_name)
        if specs.setdefault(spec.name, spec) != spec:
            told.tell("repeated_tool", f"the tool {tool.name!r} was declared twice; the first one stands")
    if names.filters and not specs:
        told.tell("tool_dropped", "none of the allowed tools can be offered to this upstream")
    return list(specs.values()), told.told


def choice_of(plan: Plan, specs: list[ToolSpec]) -> UpstreamToolChoice:
    """What the request says about using tools. What cannot be kept is refused, never weakened (ask E6)."""
    choice = plan.request.tool_choice
    if choice is UNSET:
        return UpstreamToolChoice()
    if isinstance(choice, ToolReference):
        return _one_tool(plan, choice, specs)
    mode = choice.mode if isinstance(choice, AllowedTools) else choice
    if mode not in ("auto", "none", "required"):
        raise DecodeError(f"expected auto, none, required or a tool, got {mode!r}", "tool_choice")
    if mode == "required" and not specs:
        raise DecodeError(f"a tool is required, and {_missing(plan)}", "tool_choice")
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
    wanted = reference.name or reference.type
    raise DecodeError(f"the tool {wanted!r} cannot be called at this upstream", "tool_choice")


_NAMED = 8
"""Tools that an error message names: it must not grow with the request."""


def _missing(plan: Plan) -> str:
    left_out = [tool for _, tool in _flat(declared_tools(plan.request))]
    if not left_out:
        return "none is declared"
    named = ", ".join(_called(tool) for tool in left_out[:_NAMED])
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"none is left of {named}{more}"


class _ToolNames:
    """The plan's names, and names for tools of items that the plan was made without."""

    def __init__(self, plan: Plan) -> None:
        self._declared = plan.tools
        choice = plan.request.tool_choice
        self._all = ToolIdentityMap(declared_tools(plan.request), choice)
        self.filters = isinstance(choice, AllowedTools) and choice.mode != "none"

    def identity(self, name: str, namespace: str | None) -> ToolIdentity:
        found = self._declared.declared(name, namespace) or self._all.declared(name, namespace)
        assert found is not None, "every tool of the request is in the map of all of them"
        return found

    def allows(self, identity: ToolIdentity) -> bool:
        """A tool that may not be called is still declared under `none`: the prefix stays (ask D5)."""
        return not self.filters or self._all.allows(identity)


def _flat(tools: Iterable[Tool], namespace: str | None = None) -> Iterator[tuple[str | None, Tool]]:
    """The tools with their namespaces, as the identity map counts them."""
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            inner = tool.name if namespace is None else f"{namespace}.{tool.name}"
            yield from _flat(tool.tools, inner)
        else:
            yield namespace, tool


def _called(tool: Tool) -> str:
    name = (getattr(tool, "name", "") or "")[:NAME_LIMIT]
    return f"the tool {name!r} of type {tool.type!r}" if name else f"the tool {tool.type!r}"


def _spec(tool: FunctionTool | CustomTool, upstream_name: str) -> ToolSpec:
    if isinstance(tool, CustomTool):
        return ToolSpec(upstream_name, _custom_description(tool), _CUSTOM_PARAMETERS, type="custom")
    strict = tool.strict if isinstance(tool.strict, bool) else None
    return ToolSpec(upstream_name, tool.description or "", _object_schema(tool.parameters or {}), strict)


_CUSTOM_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""Free text as a function's argument; the way back is `penstock.tools.custom` (ask B1)."""


def _custom_description(tool: CustomTool) -> str:
    """The description with the format in it: a function has no other place for a grammar (ask B1)."""
    format = tool.format or {}
    definition = format.get("definition")
    paragraphs = [tool.description or ""]
    if isinstance(definition, str) and definition:
        syntax = format.get("syntax")
        named = f"{syntax} grammar" if isinstance(syntax, str) and syntax else "grammar"
        paragraphs.append(f"`input` must match this {named}:\n{definition}")
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """An object's schema with its type and properties: some upstreams refuse `{}` (ask B6)."""
    if parameters.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
        return parameters if "type" in parameters else {"type": "object", **parameters}
    wanted = {"type": "object", "properties": {}}
    return {**{key: value for key, value in wanted.items() if key not in parameters}, **parameters}
