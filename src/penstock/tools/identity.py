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

from msgspec import UNSET, UnsetType

from penstock.protocol.items import Item
from penstock.protocol.tools import AllowedTools, NamespaceTool, Tool, ToolChoice
from penstock.tools.families import FAMILIES, family_of, family_of_call
from penstock.tools.family import ToolIdentity

NAME_LIMIT = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_VERSION = re.compile(r"(_preview)?(_\d{4}_\d{2}_\d{2})?\Z")

_Declared = tuple[str, str | None, str]
"""What a declaration is known by: type, namespace and name. Functions and custom tools share their names."""


class ToolIdentityMap:
    """A bijection: each declared tool has one upstream name, and each upstream name one tool."""

    __slots__ = (
        "_allowed",
        "_by_declaration",
        "_by_upstream_name",
        "_choice",
        "_hosted",
        "_last_number",
        "_sorted_names",
    )

    def __init__(self, tools: Iterable[Tool] = (), tool_choice: ToolChoice | UnsetType = UNSET) -> None:
        self._by_declaration: dict[_Declared, ToolIdentity] = {}
        self._by_upstream_name: dict[str, ToolIdentity] = {}
        self._hosted: set[str] = set()
        """The names of declared tools that the client does not run."""
        self._last_number: dict[str, int] = {}
        """The last number appended to a name, by the beginning of the name."""
        for namespace, tool in flat(tools):
            self._add(namespace, tool)
        self._sorted_names = sorted(self._by_upstream_name)
        self._choice = tool_choice
        self._allowed = _allowed(tool_choice)

    def __iter__(self) -> Iterator[ToolIdentity]:
        return iter(self._by_declaration.values())

    def declared(
        self, name: str, namespace: str | None = None, type: str = "function"
    ) -> ToolIdentity | None:
        """Return the tool that the client declared as `name`."""
        return self._by_declaration.get(_declared(type, namespace, name))

    def called(self, upstream_name: str, namespace: str | None = None) -> ToolIdentity | None:
        """Return the tool that an upstream calls. With a namespace, the name is the client's own."""
        if namespace is not None:
            return self.declared(upstream_name, namespace)
        return self._by_upstream_name.get(upstream_name)

    def is_hosted(self, upstream_name: str) -> bool:
        """Return whether this is the name of a declared tool that only its provider can run."""
        return _VERSION.sub("", upstream_name) in self._hosted

    def upstream_name_of(self, call: Item) -> str:
        """Return the upstream's name for the tool of an earlier call.

        A name that is no longer declared is only made valid.
        """
        family = family_of_call(call)
        assert family is not None, "only calls have the name of a tool"
        name, namespace = family.name(call), getattr(call, "namespace", None) or None
        identity = self.declared(name, namespace, family.type)
        return _valid_name(namespace, name)[:NAME_LIMIT] if identity is None else identity.upstream_name

    def upstream_names(self, tools: Iterable[Tool]) -> list[str]:
        """Return the upstream's names for declared tools."""
        found = [self._declaration(namespace, tool) for namespace, tool in flat(tools)]
        return [identity.upstream_name for identity in found if identity is not None]

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

    def _add(self, namespace: str | None, tool: Tool) -> None:
        family = family_of(tool)
        if family is None:
            self._hosted |= {_VERSION.sub("", tool.type), getattr(tool, "name", "") or tool.type}
            return
        name = family.name(tool)
        declared = _declared(family.type, namespace, name)
        if declared not in self._by_declaration:  # of two declarations, the first is used (ask B11)
            namespace = declared[1]  # None for a tool without a name: its items have none
            identity = ToolIdentity(family.type, name, namespace, self._free_name(namespace, name))
            self._by_declaration[declared] = identity
            self._by_upstream_name[identity.upstream_name] = identity

    def _declaration(self, namespace: str | None, tool: Tool) -> ToolIdentity | None:
        family = family_of(tool)
        return None if family is None else self.declared(family.name(tool), namespace, family.type)

    def _free_name(self, namespace: str | None, name: str) -> str:
        base = _valid_name(namespace, name)
        if len(base) > NAME_LIMIT:
            digest = sha256((f"{namespace}__{name}" if namespace else name).encode()).hexdigest()
            base = f"{base[: NAME_LIMIT - 9]}_{digest[:8]}"
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


def flat(tools: Iterable[Tool], namespace: str | None = None) -> Iterator[tuple[str | None, Tool]]:
    """Yield every tool with its namespace, including the tools inside of namespaces."""
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            yield from flat(tool.tools, tool.name if namespace is None else f"{namespace}.{tool.name}")
        else:
            yield namespace, tool


def _declared(type: str, namespace: str | None, name: str) -> _Declared:
    return ("", namespace, name) if FAMILIES[type].is_named else (type, None, name)


def _valid_name(namespace: str | None, name: str) -> str:
    """Return a name of any length that every upstream accepts: Gemini's begin with a letter or `_`."""
    base = f"{namespace}__{name}" if namespace else name
    if not (base.isidentifier() and base.isascii()):  # nearly every name is valid, which is cheap to see
        base = _FORBIDDEN.sub("_", base) or "tool"
    return base if base[0].isalpha() or base[0] == "_" else f"_{base}"


def _allowed(choice: ToolChoice | UnsetType) -> frozenset[tuple[object, ...]] | None:
    """Return type, name and namespace of every tool in `allowed_tools`; a namespace of None matches any."""
    if not isinstance(choice, AllowedTools):
        return None
    if choice.mode == "none":
        return frozenset()
    return frozenset((each.type, each.name or each.type, each.namespace or None) for each in choice.tools)
