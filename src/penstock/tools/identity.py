"""Maps the tools that a client declares to the names that the upstream sees, and back.

The map is built from the request's declarations alone (type, namespace, name); nothing is guessed from the
form of a name. An upstream sees flat function names; the client gets back the item type, the namespace and
the name that it declared.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import UNSET, Struct, UnsetType

from penstock.protocol.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    NamespaceTool,
    Tool,
    ToolChoice,
)

NAME_LIMIT = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class ToolIdentity(Struct, frozen=True):
    """A declared tool. `type` is the declared type and selects the family."""

    type: str
    name: str
    namespace: str | None
    upstream_name: str


class ToolIdentityMap:
    """A bijection: each declared tool has one upstream name, and each upstream name one tool."""

    def __init__(self, tools: Iterable[Tool] = (), tool_choice: ToolChoice | UnsetType = UNSET) -> None:
        self._by_declaration: dict[tuple[str | None, str], ToolIdentity] = {}
        self._by_upstream_name: dict[str, ToolIdentity] = {}
        self._last_number: dict[str, int] = {}
        """The last number appended to a name, by the beginning of the name."""
        for type, namespace, name in _declarations(tools):
            if (namespace, name) in self._by_declaration:
                continue  # declared twice: the first declaration is used (ask B11)
            identity = ToolIdentity(type, name, namespace, self._free_name(namespace, name))
            self._by_declaration[namespace, name] = identity
            self._by_upstream_name[identity.upstream_name] = identity
        self._sorted_names = sorted(self._by_upstream_name)
        self._choice = tool_choice
        self._allowed = _allowed(tool_choice)

    def __iter__(self) -> Iterator[ToolIdentity]:
        return iter(self._by_declaration.values())

    def declared(self, name: str, namespace: str | None = None) -> ToolIdentity | None:
        """Return the tool that the client declared as `name`."""
        return self._by_declaration.get((namespace, name))

    def called(self, upstream_name: str, namespace: str | None = None) -> ToolIdentity | None:
        """Return the tool that an upstream calls. With a namespace, the name is the client's own."""
        if namespace is not None:
            return self._by_declaration.get((namespace, upstream_name))
        return self._by_upstream_name.get(upstream_name)

    def may_grow(self, upstream_name: str) -> bool:
        """Return whether the name is not declared but may be the beginning of a declared name."""
        if upstream_name in self._by_upstream_name:
            return False
        position = bisect_right(self._sorted_names, upstream_name)
        return position < len(self._sorted_names) and self._sorted_names[position].startswith(upstream_name)

    def allows(self, identity: ToolIdentity) -> bool:
        """Return whether `tool_choice` lets the model call this tool (spec N47, spec N50)."""
        if self._allowed is None:
            return self._choice != "none"
        type, name = identity.type, identity.name
        return (type, name, None) in self._allowed or (type, name, identity.namespace) in self._allowed

    def _free_name(self, namespace: str | None, name: str) -> str:
        wanted = f"{namespace}__{name}" if namespace else name
        base = _FORBIDDEN.sub("_", wanted) or "tool"
        if len(base) > NAME_LIMIT:
            base = f"{base[: NAME_LIMIT - 9]}_{sha256(wanted.encode()).hexdigest()[:8]}"
        if base not in self._by_upstream_name:
            return base
        # Continue counting from the last number, by beginning: in a long name the number replaces the end.
        beginning = base[: NAME_LIMIT - 9]
        candidate, number = base, self._last_number.get(beginning, 1)
        while candidate in self._by_upstream_name:
            number += 1
            candidate = f"{base[: NAME_LIMIT - len(str(number)) - 1]}_{number}"
        self._last_number[beginning] = number
        return candidate


def _declarations(
    tools: Iterable[Tool], namespace: str | None = None
) -> Iterator[tuple[str, str | None, str]]:
    for tool in tools:
        if isinstance(tool, FunctionTool | CustomTool):
            yield tool.type, namespace, tool.name
        elif isinstance(tool, NamespaceTool):
            inner = tool.name if namespace is None else f"{namespace}.{tool.name}"
            yield from _declarations(tool.tools, inner)


def _allowed(choice: ToolChoice | UnsetType) -> frozenset[tuple[object, ...]] | None:
    """Return type, name and namespace of every tool in `allowed_tools`; a namespace of None matches any."""
    if not isinstance(choice, AllowedTools):
        return None
    if choice.mode == "none":
        return frozenset()
    return frozenset((each.type, each.name, each.namespace or None) for each in choice.tools)
