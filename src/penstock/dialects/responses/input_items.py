"""Renders the input items of a request for another Responses endpoint.

The list is repaired, not rebuilt. Item ids are ours or the client's and unknown to the endpoint, so they are
removed; only items of MCP servers get the endpoint's own back (`mcp_items.py`). Calls and outputs must match,
or the endpoint refuses the whole request (decision 14). OpenAI gets its own item types unchanged; other
endpoints get messages, functions and reasoning (ask B3).
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.agent_messages import readable_parts
from penstock.dialects.breakpoints import marked_parts
from penstock.dialects.envelope import foreign_to, unseal
from penstock.dialects.history import framed, late_outputs
from penstock.dialects.plan import Plan
from penstock.dialects.presets.rows import vendor_facts
from penstock.dialects.responses import mcp_items
from penstock.dialects.responses.content import Parts
from penstock.lenient import objects_of
from penstock.protocol.content import ContentPart, InputText
from penstock.protocol.items import (
    AdditionalTools,
    AgentMessage,
    Compaction,
    CustomToolCall,
    FunctionCall,
    Item,
    LocalShellCallOutput,
    Message,
    ReasoningItem,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
)
from penstock.protocol.wire import encode, to_builtins
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.call_ids import (
    LATE_OUTPUT,
    NO_OUTPUT,
    ORPHAN_OUTPUT,
    UniqueIds,
    fitting,
    original,
)
from penstock.tools.families import answered_call_id, arguments_of, call_id_of, content_of

_Rendered = dict[str, Any]

_PASSES = AdditionalTools | AgentMessage | ToolSearchCall | ToolSearchOutput | WebSearchCall
"""Items that OpenAI accepts back without an id and without a matching item."""

_FOLLOWS = ("_call", "_approval_request", "program")
"""The ends of the types that reasoning may come before."""

_PASSED_TYPES = frozenset({"configuration_update", "program", "program_output"})
"""The types of other items that belong to OpenAI. It refuses a request with a type that it does not know."""

_WITH_STATUS = ("_call", "_output")
"""How the types of items with a status end. The gateway's store adds one to every item (field F9)."""

_OUTPUT_TYPES = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""Calls whose output is text or content, with the type of the output."""


class InputItems:
    """Renders the items of one request. `system` collects texts that belong in the instructions."""

    def __init__(self, plan: Plan, diagnostics: Diagnostics) -> None:
        self._plan = plan
        self._diagnostics = diagnostics
        self._is_original = vendor_facts(plan.target.vendor).original_responses
        self._merges_system = plan.target.quirks.system_first and not self._is_original
        self._parts = Parts(plan.target, diagnostics)
        self._mcp = mcp_items.McpHistory(plan.request.input)
        self.system: list[str] = []
        self._rendered: list[_Rendered] = []
        self._call_ids: dict[str, str] = {}
        """The calls rendered so far: client id to upstream id."""
        self._upstream_ids = UniqueIds()
        self._types: dict[str, str] = {}
        """The types that they are rendered as, by the client's id."""
        self._outputs: dict[str, Item] = {}
        """The first output of each call."""
        self._calls: set[str] = set()
        """The ids of all calls."""
        self._early: set[int] = set()
        """Outputs that precede their calls in the input."""
        self._late: set[int] = set()
        """Outputs whose call has an earlier one with other content."""

    def items(self) -> list[_Rendered]:
        raw_input = self._plan.request.input
        items: list[Item] = (
            [Message(role="user", content=raw_input)] if isinstance(raw_input, str) else raw_input or []
        )
        if self._plan.target.quirks.drops_old_reasoning:
            items = _without_old_reasoning(items)
        keys = _keys(items)
        self._late = late_outputs(items)
        for item, key in zip(items, keys, strict=True):
            if call_id_of(item):
                self._calls.add(key)
            elif key:
                self._outputs.setdefault(key, item)
        for item, key in zip(items, keys, strict=True):
            self._add(item, key)
        return self._with_followed_reasoning() if self._is_original else self._rendered

    def _report(self, code: str, message: str) -> None:
        self._diagnostics.report(code, message)

    def _add(self, item: Item, key: str) -> None:
        if isinstance(item, Message):
            self._message(item)
        elif isinstance(item, ReasoningItem):
            self._reasoning(item)
        elif call_id_of(item):
            self._call(item, key)
        elif key:
            self._output(item, key)
        elif isinstance(item, Compaction):
            self._compaction(item)
        elif self._is_original and (isinstance(item, _PASSES) or item.type in _PASSED_TYPES):
            self._pass(item)
        elif mcp_items.type_of(item) in mcp_items.TYPES and self._is_original:
            self._rendered.append(self._mcp.rendered(item))
        elif isinstance(item, AgentMessage):
            self._rendered.append(_user(self._parts.message_parts("user", readable_parts(item))))
        elif not isinstance(item, AdditionalTools | ToolSearchOutput):
            self._report("item_left_out", f"an item of type {item.type!r} cannot be sent to this upstream")

    def _message(self, message: Message) -> None:
        role, content = message.role, marked_parts(message, message.content)
        if role in ("system", "developer") and not self._is_original:
            role = "developer" if self._plan.target.quirks.developer_role else "system"
            if self._merges_system:
                self._system(content if isinstance(content, str) else self._parts.system_text(content))
                return
        if rendered := content if isinstance(content, str) else self._parts.message_parts(role, content):
            phase = {"phase": message.phase} if message.phase and self._is_original else {}
            self._rendered.append({"type": "message", "role": role, "content": rendered, **phase})

    def _system(self, text: str) -> None:
        """Add leading texts to the instructions; a later one stays at its place (decision 19)."""
        if not text:
            return
        if self._rendered:
            self._rendered.append(_user(framed(text)))
        else:
            self.system.append(text)

    def _reasoning(self, item: ReasoningItem) -> None:
        """Send encrypted reasoning back to its upstream, and plain text to endpoints that accept it."""
        sealed = item.encrypted_content or ""
        envelope = unseal(sealed)
        if origin := foreign_to(self._plan.target, sealed):
            self._report("reasoning_left_out", f"reasoning from {origin} was left out")
            return
        payload = envelope.payload if envelope is not None and isinstance(envelope.payload, dict) else {}
        encrypted = payload.get("encrypted_content")
        summary, content = to_builtins(item.summary), to_builtins(item.content or [])
        if "content" in payload:
            # Prefer what the reader sealed: clients lose text or send it as a summary.
            summary, content = objects_of(payload.get("summary")), objects_of(payload["content"])
        rendered: _Rendered = {"type": "reasoning", "summary": summary}
        if content and not self._is_original:
            rendered["content"] = content
        if isinstance(encrypted, str) and encrypted:
            rendered["encrypted_content"] = encrypted
        elif self._is_original or not (summary or content):
            self._report("reasoning_left_out", "reasoning that the upstream cannot read was left out")
            return
        self._rendered.append(rendered)

    def _call(self, item: Item, call_id: str) -> None:
        if call_id in self._call_ids:
            self._report("repeated_call", f"the call id {call_id!r} appears twice; the call was sent once")
            return
        # In a flat list, two calls with one id are ambiguous, so a suffix that is needed stays.
        upstream_id = self._upstream_ids.first_free(original(call_id), call_id, separator="-pk")
        self._call_ids[call_id] = upstream_id
        self._diagnostics.add_long_call_id(upstream_id, call_id_of(item))
        self._types[call_id] = item.type if self._is_original else "function_call"
        output = self._outputs.get(call_id)
        if output is None:
            self._report("unanswered_call", f"the call {call_id!r} has no output; a placeholder was sent")
            if self._types[call_id] not in _OUTPUT_TYPES:
                # A typed call needs an output of its type, for which there is no placeholder.
                self._rendered.append(_assistant(f"[a call without an output: {encode(item).decode()}]"))
                return
        self._rendered.append(self._rendered_call(item, upstream_id))
        if output is None:
            self._add_output(call_id, NO_OUTPUT)
        elif id(output) in self._early:
            self._render_output(output, call_id)

    def _rendered_call(self, item: Item, upstream_id: str) -> _Rendered:
        name = self._plan.tools.upstream_name_of(item)
        if not self._is_original:
            arguments = arguments_of(item)
            return {"type": "function_call", "call_id": upstream_id, "name": name, "arguments": arguments}
        rendered = _without_id(item) | {"call_id": upstream_id}
        if isinstance(item, FunctionCall | CustomToolCall) and not item.namespace:
            rendered["name"] = name
        return rendered

    def _output(self, item: Item, call_id: str) -> None:
        if call_id not in self._calls:
            self._orphan(item)
        elif id(item) in self._late:
            self._report("late_output", f"a second output of the call {call_id!r} was sent as a message")
            self._message_with(LATE_OUTPUT.format(id=call_id), self._content(item))
        elif self._outputs[call_id] is not item:
            self._report("repeated_output", f"the call {call_id!r} has several outputs; the first was sent")
        elif call_id in self._call_ids:
            self._render_output(item, call_id)
        else:
            self._early.add(id(item))  # it is added after its call, which comes later

    def _orphan(self, item: Item) -> None:
        if isinstance(item, ToolSearchOutput) and self._is_original:
            # The tools that the search found can still be called.
            tools = to_builtins(item.tools)
            self._rendered.append({"type": "additional_tools", "role": "developer", "tools": tools})
            return
        call_id, content = answered_call_id(item), self._content(item)
        self._report("orphan_output", f"the output of an unknown call {call_id!r} was sent as a message")
        self._message_with(ORPHAN_OUTPUT, content)

    def _message_with(self, title: str, content: str | list[ContentPart]) -> None:
        """Add a user message for content that has no other place."""
        parts: list[ContentPart] = [InputText(text=title)]
        parts += [InputText(text=content)] if isinstance(content, str) else content
        self._rendered.append(_user(self._parts.message_parts("user", parts)))

    def _render_output(self, item: Item, call_id: str) -> None:
        if self._types[call_id] in _OUTPUT_TYPES:
            self._add_output(call_id, self._parts.output(marked_parts(item, self._content(item))))
        elif isinstance(item, LocalShellCallOutput):
            # For OpenAI, its `id` is the id of the call; it has no `call_id`.
            rendered = _without_id(item) | {"id": self._call_ids[call_id]}
            rendered.pop("call_id", None)
            self._rendered.append(rendered)
        else:
            self._rendered.append(_without_id(item) | {"call_id": self._call_ids[call_id]})

    def _content(self, output: Item) -> str | list[ContentPart]:
        return content_of(output, self._plan.tools.upstream_names)

    def _add_output(self, call_id: str, output: str | list[_Rendered]) -> None:
        kind = _OUTPUT_TYPES[self._types[call_id]]
        self._rendered.append({"type": kind, "call_id": self._call_ids[call_id], "output": output})

    def _compaction(self, item: Compaction) -> None:
        """Send a compaction of ours as text, and the vendor's own unchanged; leave out any other."""
        envelope = unseal(item.encrypted_content)
        payload = envelope.payload if envelope is not None and isinstance(envelope.payload, dict) else {}
        text, encrypted = payload.get("text"), payload.get("encrypted_content")
        if isinstance(text, str) and text:
            self._rendered.append(_user(text))
        elif isinstance(encrypted, str) and envelope is not None and envelope.is_for(self._plan.target):
            self._rendered.append({"type": "compaction", "encrypted_content": encrypted})
        else:
            self._report("item_left_out", "a compaction from another upstream was left out")

    def _pass(self, item: Item) -> None:
        rendered = _without_id(item)
        if isinstance(item, AdditionalTools):
            rendered["role"] = "developer"  # the only role that may add tools
        if not item.type.endswith(_WITH_STATUS):
            rendered.pop("status", None)
        self._rendered.append(rendered)

    def _with_followed_reasoning(self) -> list[_Rendered]:
        """Drop reasoning that no message or call follows: OpenAI refuses it (ask C5)."""
        kept: list[_Rendered] = []
        is_followed = False
        for item in reversed(self._rendered):
            if item["type"] != "reasoning":
                is_followed = item.get("role") == "assistant" or item["type"].endswith(_FOLLOWS)
            elif not is_followed:
                self._report(
                    "reasoning_left_out", "trailing reasoning was left out: no message or call follows it"
                )
                continue
            kept.append(item)
        return kept[::-1]


def _without_old_reasoning(items: list[Item]) -> list[Item]:
    """Return the items without the reasoning before the last user message."""
    from_user = [at for at, item in enumerate(items) if isinstance(item, Message) and item.role == "user"]
    first_kept = from_user[-1] if from_user else 0
    return [item for at, item in enumerate(items) if at > first_kept or not isinstance(item, ReasoningItem)]


def _keys(items: list[Item]) -> list[str]:
    """Return for each item the id of the call that it is or is the output of, or "".

    Some upstreams restart their ids in every turn, and a client may bring such a history: if an id appears
    again after its output, it is another call and gets another id.
    """
    current: dict[str, str] = {}
    answered: set[str] = set()
    keys: list[str] = []
    for item in items:
        call_id, answers = fitting(call_id_of(item)), fitting(answered_call_id(item))
        if call_id in answered:
            current[call_id] = fitting(f"{call_id}-pk{len(keys)}")
            answered.discard(call_id)
        elif call_id:
            current.setdefault(call_id, call_id)
        elif answers in current:
            answered.add(answers)
        id = call_id or answers
        keys.append(current.get(id, id))
    return keys


def _without_id(item: Item) -> _Rendered:
    rendered: _Rendered = to_builtins(item)
    rendered.pop("id", None)
    return rendered


def _user(content: str | list[_Rendered]) -> _Rendered:
    return {"type": "message", "role": "user", "content": content}


def _assistant(text: str) -> _Rendered:
    return {"type": "message", "role": "assistant", "content": text}
