"""The tools of a request, in a form for upstreams that support only functions.

Tools come from `tools` and, later in a conversation, from items of the input (`additional_tools`,
`tool_search_output`; client 1). Declared tools come first and later ones are appended, so that the prompt's
prefix does not change (ask D5). A tool that the client does not run itself, such as a hosted web search, is
left out, with a diagnostic that names it (ask B3).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.dialects.breakpoints import has_breakpoint
from penstock.dialects.plan import Plan, Target
from penstock.dialects.presets.rows import vendor_facts
from penstock.dialects.tool_fields import any_encryption, report_tool_fields, without_encryption
from penstock.errors import DecodeError
from penstock.protocol.call_outputs import with_call_ids
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import CreateResponse, declared_tools
from penstock.protocol.tools import AllowedTools, Tool, ToolReference, WebSearchTool
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.families import family_of
from penstock.tools.family import ToolFamily, ToolIdentity
from penstock.tools.identity import NAME_LIMIT, ToolIdentityMap, flat


class ToolSpec(Struct, frozen=True):
    """A tool as a function, under its upstream name. `type` is the declared type.

    `parameters` is always the schema of an object. `strict` is None if the client did not set it.
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


_NO_TOOLS = ToolIdentityMap()
"""Shared by the requests without tools: it never changes."""


def identities_of(request: CreateResponse) -> ToolIdentityMap:
    """Return the identities of the tools that a request declares."""
    tools = declared_tools(request)
    if not tools and request.tool_choice is UNSET:
        return _NO_TOOLS
    return ToolIdentityMap(tools, request.tool_choice)


def plan_for(request: CreateResponse, target: Target, *, accent: str = "openresponses") -> Plan:
    """Return the plan for a request at a target, with the identities of the request's tools.

    Raise `DecodeError` for an output whose call is not certain.
    """
    if isinstance(request.input, list):
        request = replace(request, input=with_call_ids(request.input))
    return Plan(request=request, target=target, tools=identities_of(request), accent=accent)


WEB_SEARCH = "web_search"


def web_search_of(plan: Plan) -> WebSearchTool | None:
    """Return the declared web search, if the upstream has one of its own that can take its place.

    A client that forbids access to the live web does not get it, nor one that declares a function of this
    name: the upstream could not tell them apart.
    """
    tools = [tool for _, tool in flat(declared_tools(plan.request))]
    searches = [tool for tool in tools if isinstance(tool, WebSearchTool)]
    choice = plan.request.tool_choice
    if (
        not searches
        or not vendor_facts(plan.target.vendor).web_search
        or searches[0].external_web_access is False
        or plan.tools.called(WEB_SEARCH) is not None
        or (isinstance(choice, AllowedTools) and all(each.type != WEB_SEARCH for each in choice.tools))
    ):
        return None
    return searches[0]


def tools_of(
    plan: Plan, *, allowed_only: bool = True, web_search: WebSearchTool | None = None
) -> tuple[list[ToolSpec], list[Diagnostic]]:
    """Return the functions to offer. `allowed_only` applies `allowed_tools` for upstreams without it.

    `web_search` is offered by the dialect as the upstream's own tool.
    """
    diagnostics = Diagnostics()
    declared = declared_tools(plan.request)
    has_encryption = any_encryption(declared)
    report_tool_fields(declared, diagnostics, has_encryption=has_encryption)
    names = _ToolNames(plan, declared)
    specs: dict[str, ToolSpec] = {}
    for namespace, tool in flat(declared):
        family = family_of(tool)
        if web_search is not None and tool.type == WEB_SEARCH:
            continue
        if family is None:
            diagnostics.report(
                "tool_dropped", f"{_shown(tool)} is not supported by this upstream and was left out"
            )
            continue
        identity = names.identity(family, tool, namespace)
        if allowed_only and not names.allows(identity):
            continue
        spec = _spec(family, tool, identity.upstream_name, has_encryption)
        first = specs.setdefault(spec.name, spec)
        if first is not spec and first != spec:
            diagnostics.report(
                "repeated_tool",
                f"the tool {identity.name!r} was declared twice; the first declaration is used",
            )
    if names.filters and not specs and web_search is None:
        diagnostics.report("tool_dropped", "this upstream supports none of the allowed tools")
    return list(specs.values()), diagnostics.entries


def choice_of(
    plan: Plan, specs: list[ToolSpec], web_search: WebSearchTool | None = None
) -> UpstreamToolChoice:
    """Return the request's tool choice. Refuse a choice that cannot be honoured, never weaken it (ask E6)."""
    choice = plan.request.tool_choice
    if choice is UNSET:
        return UpstreamToolChoice()
    if isinstance(choice, ToolReference) and choice.type == WEB_SEARCH and web_search is not None:
        return UpstreamToolChoice("tool", WEB_SEARCH)
    if isinstance(choice, ToolReference):
        return _one_tool(plan, choice, specs)
    mode = choice.mode if isinstance(choice, AllowedTools) else choice
    if mode not in ("auto", "none", "required"):
        raise DecodeError(f"expected auto, none, required or a tool, got {mode!r}", "tool_choice")
    if mode == "required" and not specs and web_search is None:
        raise DecodeError(f"`required` needs a tool, but {_why_no_tools(plan)}", "tool_choice")
    return UpstreamToolChoice(mode)


def _one_tool(plan: Plan, reference: ToolReference, specs: list[ToolSpec]) -> UpstreamToolChoice:
    declared = declared_tools(plan.request)
    names = _ToolNames(plan, declared)
    offered = {spec.name for spec in specs}
    for namespace, tool in flat(declared):
        family = family_of(tool)
        if family is None or not _refers_to(reference, family, tool, namespace):
            continue
        upstream_name = names.identity(family, tool, namespace).upstream_name
        if upstream_name in offered:
            return UpstreamToolChoice("tool", upstream_name)
    tool_name = reference.name or reference.type
    raise DecodeError(f"the tool {tool_name!r} is not available at this upstream", "tool_choice")


def _refers_to(reference: ToolReference, family: ToolFamily, tool: Tool, namespace: str | None) -> bool:
    if not family.is_named:
        return reference.type == family.type
    return reference.name == family.name(tool) and reference.namespace in (UNSET, "", namespace)


_NAMED = 8
"""The most tools that an error message names: it must not grow with the request."""


def _why_no_tools(plan: Plan) -> str:
    left_out = [tool for _, tool in flat(declared_tools(plan.request))]
    if not left_out:
        return "no tool is declared"
    named = ", ".join(_shown(tool) for tool in left_out[:_NAMED])
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"this upstream supports none of {named}{more}"


class _ToolNames:
    """The plan's names, and names for tools of items that the plan does not know."""

    def __init__(self, plan: Plan, declared: list[Tool]) -> None:
        self._known, self._declared, self._choice = plan.tools, declared, plan.request.tool_choice
        self.filters = isinstance(self._choice, AllowedTools) and self._choice.mode != "none"

    @cached_property
    def _all(self) -> ToolIdentityMap:
        """Made only if needed: usually the plan knows all tools."""
        return ToolIdentityMap(self._declared, self._choice)

    def identity(self, family: ToolFamily, tool: Tool, namespace: str | None) -> ToolIdentity:
        known_by = (family.name(tool), namespace, family.type)
        found = self._known.declared(*known_by) or self._all.declared(*known_by)
        assert found is not None, "`_all` contains every tool of the request"
        return found

    def allows(self, identity: ToolIdentity) -> bool:
        """Return whether to declare a tool. `none` still declares all tools: the prefix stays (ask D5)."""
        return not self.filters or self._all.allows(identity)


def _shown(tool: Tool) -> str:
    name = (getattr(tool, "name", "") or "")[:NAME_LIMIT]
    return f"the tool {name!r} of type {tool.type!r}" if name else f"the tool {tool.type!r}"


def _spec(family: ToolFamily, tool: Tool, upstream_name: str, has_encryption: bool) -> ToolSpec:
    function = family.declare(tool)
    return ToolSpec(
        upstream_name,
        function.description,
        without_encryption(function.parameters) if has_encryption else function.parameters,
        function.strict,
        family.type,
        breakpoint=has_breakpoint(tool),
    )
