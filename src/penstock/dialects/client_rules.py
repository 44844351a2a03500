"""Turns what this client may not receive into the nearest thing that it may, before the state machine
(decision 1).

The reader of a dialect returns whatever the upstream did. `penstock.stream.permissions` says which items,
events and citations the client gets. A call that the client could run becomes a function call, a citation
with a URL becomes a `url_citation`, and the rest is left out with a diagnostic. The rules apply before the
state machine, so that the log, the indexes and the finished items agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from penstock.dialects.plan import Plan
from penstock.lenient import count_of, text_of
from penstock.protocol.content import Annotation, ContentPart, OutputText, UrlCitation
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import CLIENT_CALLS, Item, Message, ToolSearchCall, ToolSearchOutput
from penstock.protocol.request import declared_tools
from penstock.protocol.response import Response
from penstock.protocol.tools import Tool, ToolSearchTool
from penstock.protocol.wire import to_builtins
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    ItemDelta,
    Key,
    ToolCallDelta,
)
from penstock.stream.permissions import Permissions

ITEM_LEFT_OUT = "undeclared_item"
CITATION_LEFT_OUT = "citation_left_out"
_CITATION_MESSAGE = "citations were left out: this client has no form for a citation without a URL"

_URL_FIELDS = ("url", "uri", "source")


class ClientRules:
    """The rules for one answer. They remember what they decided about each item and call."""

    __slots__ = (
        "_declared_calls",
        "_permissions",
        "_replaced",
        "_searcher",
        "_sent",
        "_unnamed_calls",
        "_wrapped_calls",
    )

    def __init__(self, plan: Plan) -> None:
        tools = declared_tools(plan.request)
        self._permissions = Permissions(plan.accent, tools)
        self._searcher = _searcher_of(tools)
        self._sent: set[Key] = set()
        """The keys of items that the client gets."""
        self._replaced: set[Key] = set()
        """The keys of items that it does not get as they are. Their events are dropped too."""
        self._declared_calls: set[Key | None] = set()
        """The keys of custom calls whose tools are declared."""
        self._wrapped_calls: dict[Key | None, WrappedCall] = {}
        """Custom calls whose tools are not declared: they become function calls."""
        self._unnamed_calls: dict[Key | None, list[ToolCallDelta]] = {}
        """Pieces of custom calls whose names have not arrived."""

    def apply(self, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas for the state machine."""
        permitted: list[Delta] = []
        for delta in deltas:
            rule = _RULES.get(delta.__class__)
            permitted += [delta] if rule is None else rule(self, delta)
        return permitted

    # Items

    def _item(self, delta: ItemDelta) -> list[Delta]:
        item, is_replaced = self._with_searcher(delta.item), delta.key in self._replaced
        if not is_replaced and (delta.key in self._sent or self._permissions.item(item)):
            self._sent.add(delta.key)
            return [replace(delta, item=item)]
        self._replaced.add(delta.key)
        if item.type in CLIENT_CALLS and getattr(item, "execution", "client") == "client":
            return [_function_call(delta.key, item, done=delta.done)]
        if is_replaced:
            return []
        message = (
            f"an item of type {item.type[:80]!r} was left out: the upstream used a tool that the request "
            "does not declare"
        )
        return [DiagnosticDelta(ITEM_LEFT_OUT, message)]

    def _with_searcher(self, item: Item) -> Item:
        """Add who runs a search for tools: in the strict accent, the name of the item's type depends on it,
        and the upstream may not say it from the start."""
        if not isinstance(item, ToolSearchCall | ToolSearchOutput) or not self._permissions.is_strict:
            return item
        is_known = item.execution in ("client", "server")
        return item if is_known else replace(item, execution=self._searcher)

    def _event(self, delta: EventDelta) -> list[Delta]:
        if delta.key is None:
            return [delta]
        if delta.key in self._replaced:
            return []
        # This needs no diagnostic: the item itself has what its events report.
        is_dropped = delta.key in self._sent and not self._permissions.sub_event(delta.type)
        return [] if is_dropped else [delta]

    # Citations

    def _annotation(self, delta: AnnotationDelta) -> list[Delta]:
        citation = _permitted_citation(delta.annotation, self._permissions)
        if citation is None:
            return [DiagnosticDelta(CITATION_LEFT_OUT, _CITATION_MESSAGE)]
        return [replace(delta, annotation=citation)]

    # Custom calls

    def _call(self, delta: ToolCallDelta) -> list[Delta]:
        """Return a custom call unchanged if its tool is declared; else as a call to a function. The pieces of
        a call without a name wait for it."""
        if delta.type != "custom" or not self._permissions.is_strict:
            return [delta]
        key = delta.key
        # `replace` would take longer than everything else here.
        plain = ToolCallDelta(key, delta.id, delta.name, delta.namespace, None, delta.arguments, delta.whole)
        if delta.name:
            held = self._unnamed_calls.pop(key, [])
            if self._permissions.custom_call(delta.name):
                self._declared_calls.add(key)
                return [*held, delta]
            self._declared_calls.discard(key)
            call = self._wrapped_calls[key] = WrappedCall()
            return [wrapped for each in (*held, plain) for wrapped in call.wrap(each)]
        if key in self._declared_calls:
            return [plain]  # its first piece has the type
        if key in self._wrapped_calls:
            return self._wrapped_calls[key].wrap(plain)
        self._unnamed_calls.setdefault(key, []).append(plain)
        return []

    def _end(self, delta: FinishDelta | ErrorDelta) -> list[Delta]:
        held: list[Delta] = [each for calls in self._unnamed_calls.values() for each in calls]
        self._unnamed_calls.clear()
        if isinstance(delta, FinishDelta):
            for key, call in self._wrapped_calls.items():
                held += call.end(key)
        return [*held, delta]  # the state machine reports a call without a name


_RULES: dict[type, Callable[[ClientRules, Any], list[Delta]]] = {
    ItemDelta: ClientRules._item,
    EventDelta: ClientRules._event,
    AnnotationDelta: ClientRules._annotation,
    ToolCallDelta: ClientRules._call,
    FinishDelta: ClientRules._end,
    ErrorDelta: ClientRules._end,
}
"""The rule for each kind of delta. Other deltas are always permitted."""


def has_rules(deltas: list[Delta]) -> bool:
    """Return whether a rule concerns any of these deltas."""
    return not _RULES.keys().isdisjoint(map(type, deltas))


class WrappedCall:
    """The free text of a custom call as the arguments of a function, `{"input": "…"}`, piece by piece."""

    def __init__(self) -> None:
        self._is_open = False
        self._has_ended = False

    def end(self, key: Key | None) -> list[Delta]:
        """Return the end of the arguments, if the upstream sent none: some end a response without it."""
        is_cut = self._is_open and not self._has_ended
        return self.wrap(ToolCallDelta(key, whole=True)) if is_cut else []

    def wrap(self, delta: ToolCallDelta) -> list[Delta]:
        text = delta.arguments
        if isinstance(text, dict):
            return [delta]
        self._has_ended = self._has_ended or delta.whole
        if delta.whole and (text is not None or not self._is_open):
            return [replace(delta, arguments=_HEAD + _escaped(text or "") + _TAIL)]
        if delta.whole:
            return [replace(delta, arguments=_TAIL, whole=False), ToolCallDelta(delta.key, whole=True)]
        if not text:
            return [delta]
        head, self._is_open = "" if self._is_open else _HEAD, True
        return [replace(delta, arguments=head + _escaped(text))]


_HEAD, _TAIL = '{"input":"', '"}'


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_ARGUMENTS = ("action", "operation", "arguments")
"""The field of a call that has its arguments, depending on the tool."""


def _function_call(key: Key, item: Item, *, done: bool) -> ToolCallDelta:
    """Return a call that the client could run, if it had declared the tool, as a call to a function."""
    fields = to_builtins(item)
    call_id, name = text_of(fields.get("call_id")), item.type.removesuffix("_call")
    if not done or fields.get("status") == "incomplete":
        return ToolCallDelta(key, id=call_id or None, name=name)
    arguments = next((value for each in _ARGUMENTS if isinstance(value := fields.get(each), dict)), {})
    return ToolCallDelta(key, id=call_id or None, name=name, arguments=arguments, whole=True)


def _searcher_of(tools: Iterable[Tool]) -> str:
    """Return who runs a search for tools, by the declaration: the vendor, unless it says otherwise."""
    by_client = any(isinstance(tool, ToolSearchTool) and tool.execution == "client" for tool in tools)
    return "client" if by_client else "server"


def _permitted_citation(annotation: Annotation, permissions: Permissions) -> Annotation | None:
    """Return the citation, or else the nearest `url_citation`; None if it has no URL."""
    if permissions.citation(annotation):
        return annotation
    fields = annotation.extra or {}
    urls = (text_of(fields.get(name)) for name in _URL_FIELDS)
    url = next((url for url in urls if url.startswith(("http://", "https://"))), "")
    if not url:
        return None
    return UrlCitation(
        url=url,
        title=text_of(fields.get("title")),
        start_index=count_of(fields.get("start_index")) or 0,
        end_index=count_of(fields.get("end_index")) or 0,
    )


def with_permitted_citations(response: Response, accent: str) -> Response:
    """Return a whole response that was made for another accent, with the citations that this one permits."""
    permissions = Permissions(accent, response.tools)
    lost = 0

    def permitted(part: ContentPart) -> ContentPart:
        nonlocal lost
        if not isinstance(part, OutputText):
            return part
        citations = [_permitted_citation(each, permissions) for each in part.annotations]
        kept = [citation for citation in citations if citation is not None]
        lost += len(citations) - len(kept)
        return replace(part, annotations=kept)

    output = [
        replace(item, content=[permitted(part) for part in item.content])
        if isinstance(item, Message) and not isinstance(item.content, str)
        else item
        for item in response.output
    ]
    diagnostics = response.diagnostics
    if lost:
        left_out = Diagnostic(code=CITATION_LEFT_OUT, message=_CITATION_MESSAGE, count=lost)
        diagnostics = [*(diagnostics or []), left_out]
    return replace(response, output=output, diagnostics=diagnostics)
