"""A request's items for another Responses endpoint.

The list stays a list; it is mended, not rebuilt. Item ids are ours or the client's and mean nothing there, so
they go. Calls and outputs must match, or the endpoint refuses the whole request (decision 14). OpenAI gets
its own types as they are; any other endpoint gets messages, functions and reasoning (ask B3).
"""

from __future__ import annotations

import re
from typing import Any

from penstock.dialects.envelope import unseal
from penstock.dialects.history import call_of, framed, output_of
from penstock.dialects.plan import Plan
from penstock.dialects.presets.rows import vendor_facts
from penstock.dialects.responses.content import Parts
from penstock.protocol.content import ContentPart, InputText
from penstock.protocol.items import (
    AdditionalTools,
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
from penstock.tools.call_ids import NO_OUTPUT, ORPHAN_OUTPUT, UniqueIds, fitting, original

_Written = dict[str, Any]

_PASSES = AdditionalTools | ToolSearchCall | ToolSearchOutput | WebSearchCall
"""Items that OpenAI takes back without an id and without a partner."""

_ANSWERS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""Calls whose output is text or content, and the type of it."""


class InputItems:
    """Writes the items of one request. `system` is what belongs into the instructions."""

    def __init__(self, plan: Plan, told: Diagnostics) -> None:
        self._plan = plan
        self._told = told
        self._is_original = vendor_facts(plan.target.vendor).original_responses
        self._merges_system = plan.target.quirks.system_first and not self._is_original
        self._parts = Parts(plan.target, told)
        self.system: list[str] = []
        self._written: list[_Written] = []
        self._call_ids: dict[str, str] = {}
        """The calls that are written: the client's id and the upstream's."""
        self._upstream_ids = UniqueIds()
        self._types: dict[str, str] = {}
        """The types under which they are written."""
        self._outputs: dict[str, Item] = {}
        """The first output of each call."""
        self._calls: set[str] = set()
        """Every call that there is."""
        self._early: set[int] = set()
        """Outputs that came before their calls."""

    def items(self) -> list[_Written]:
        given = self._plan.request.input
        items: list[Item] = [Message(role="user", content=given)] if isinstance(given, str) else given or []
        keys = _keys(items)
        for item, key in zip(items, keys, strict=True):
            if call_of(item)[0]:
                self._calls.add(key)
            elif key:
                self._outputs.setdefault(key, item)
        for item, key in zip(items, keys, strict=True):
            self._take(item, key)
        return self._with_followed_reasoning() if self._is_original else self._written

    def _tell(self, code: str, message: str) -> None:
        self._told.tell(code, message)

    def _take(self, item: Item, key: str) -> None:
        if isinstance(item, Message):
            self._message(item)
        elif isinstance(item, ReasoningItem):
            self._reasoning(item)
        elif call_of(item)[0]:
            self._call(item, key)
        elif key:
            self._output(item, key)
        elif isinstance(item, Compaction):
            self._compaction(item)
        elif isinstance(item, _PASSES) and self._is_original:
            self._pass(item)
        elif not isinstance(item, AdditionalTools | ToolSearchOutput):
            self._tell("item_left_out", f"an item of type {item.type!r} cannot be sent to this upstream")

    def _message(self, message: Message) -> None:
        role, content = message.role, message.content
        if role in ("system", "developer") and not self._is_original:
            role = "developer" if self._plan.target.quirks.developer_role else "system"
            if self._merges_system:
                self._system(content if isinstance(content, str) else self._parts.system_text(content))
                return
        if written := content if isinstance(content, str) else self._parts.said_by(role, content):
            phase = {"phase": message.phase} if message.phase and self._is_original else {}
            self._written.append({"type": "message", "role": role, "content": written, **phase})

    def _system(self, text: str) -> None:
        """Only leading texts join the instructions; a later one stays where it is (decision 19)."""
        if not text:
            return
        if self._written:
            self._written.append(_user(framed(text)))
        else:
            self.system.append(text)

    def _reasoning(self, item: ReasoningItem) -> None:
        """Encrypted reasoning goes back to its maker; any other only as text, to endpoints that show text."""
        sealed = item.encrypted_content or ""
        envelope = unseal(sealed)
        if sealed and (envelope is None or not envelope.is_for(self._plan.target)):
            self._tell("reasoning_left_out", "reasoning of another upstream was left out")
            return
        payload = envelope.payload if envelope is not None else None
        encrypted = payload.get("encrypted_content") if isinstance(payload, dict) else None
        written: _Written = {"type": "reasoning", "summary": to_builtins(item.summary)}
        if item.content and not self._is_original:
            written["content"] = to_builtins(item.content)
        if isinstance(encrypted, str) and encrypted:
            written["encrypted_content"] = encrypted
        elif self._is_original or not (item.summary or item.content):
            self._tell("reasoning_left_out", "reasoning that the upstream cannot read was left out")
            return
        self._written.append(written)

    def _call(self, item: Item, call_id: str) -> None:
        if call_id in self._call_ids:
            self._tell("repeated_call", f"a call with the id {call_id!r} came twice; it was sent once")
            return
        # In a flat list two calls with one id cannot be told apart, so a suffix that is needed stays.
        upstream_id = self._upstream_ids.first_free(original(call_id), call_id, separator="-pk")
        self._call_ids[call_id] = upstream_id
        self._types[call_id] = item.type if self._is_original else "function_call"
        output = self._outputs.get(call_id)
        if output is None:
            self._tell("unanswered_call", f"the call {call_id!r} has no output; a placeholder was sent")
            if self._types[call_id] not in _ANSWERS:
                # A typed call wants an output of its type, which nobody can make up.
                self._written.append(_said(f"[a call without an output: {encode(item).decode()}]"))
                return
        self._written.append(self._called(item, upstream_id))
        if output is None:
            self._answer(call_id, NO_OUTPUT)
        elif id(output) in self._early:
            self._write_output(output, call_id)

    def _called(self, item: Item, upstream_id: str) -> _Written:
        _, name, arguments = call_of(item)
        namespace = getattr(item, "namespace", None) or None
        if not self._is_original:
            name = self._name(name, namespace)
            return {"type": "function_call", "call_id": upstream_id, "name": name, "arguments": arguments}
        written = _without_id(item) | {"call_id": upstream_id}
        if isinstance(item, FunctionCall | CustomToolCall) and namespace is None:
            written["name"] = self._name(name, None)
        return written

    def _name(self, name: str, namespace: str | None) -> str:
        identity = self._plan.tools.declared(name, namespace)
        if identity is not None:
            return identity.upstream_name
        return re.sub(r"[^A-Za-z0-9_-]", "_", f"{namespace}__{name}" if namespace else name)[:64] or "tool"

    def _output(self, item: Item, call_id: str) -> None:
        if call_id not in self._calls:
            self._orphan(item)
        elif self._outputs[call_id] is not item:
            self._tell("repeated_output", f"the call {call_id!r} has several outputs; the first was sent")
        elif call_id in self._call_ids:
            self._write_output(item, call_id)
        else:
            self._early.add(id(item))  # its call comes later, and it goes behind the call

    def _orphan(self, item: Item) -> None:
        if isinstance(item, ToolSearchOutput) and self._is_original:
            # What a lost search found is still there to be called.
            tools = to_builtins(item.tools)
            self._written.append({"type": "additional_tools", "role": "developer", "tools": tools})
            return
        call_id, content = output_of(item)
        self._tell("orphan_output", f"the output of an unknown call {call_id!r} was sent as a message")
        parts: list[ContentPart] = [InputText(text=ORPHAN_OUTPUT)]
        parts += [InputText(text=content)] if isinstance(content, str) else content
        self._written.append(_user(self._parts.said_by("user", parts)))

    def _write_output(self, item: Item, call_id: str) -> None:
        if self._types[call_id] in _ANSWERS:
            self._answer(call_id, self._parts.output(output_of(item)[1]))
        elif isinstance(item, LocalShellCallOutput):
            # Its `id` is the id of the call; it has no other.
            self._written.append(_without_id(item) | {"id": self._call_ids[call_id]})
        else:
            self._written.append(_without_id(item) | {"call_id": self._call_ids[call_id]})

    def _answer(self, call_id: str, output: str | list[_Written]) -> None:
        kind = _ANSWERS[self._types[call_id]]
        self._written.append({"type": kind, "call_id": self._call_ids[call_id], "output": output})

    def _compaction(self, item: Compaction) -> None:
        """Ours is a text, the vendor's own goes back to it, anybody else's cannot be read."""
        envelope = unseal(item.encrypted_content)
        payload = envelope.payload if envelope is not None and isinstance(envelope.payload, dict) else {}
        text, encrypted = payload.get("text"), payload.get("encrypted_content")
        if isinstance(text, str) and text:
            self._written.append(_user(text))
        elif isinstance(encrypted, str) and envelope is not None and envelope.is_for(self._plan.target):
            self._written.append({"type": "compaction", "encrypted_content": encrypted})
        else:
            self._tell("item_left_out", "a compaction of another upstream was left out")

    def _pass(self, item: Item) -> None:
        written = _without_id(item)
        if isinstance(item, AdditionalTools):
            written["role"] = "developer"  # the one role that may bring tools
        self._written.append(written)

    def _with_followed_reasoning(self) -> list[_Written]:
        """OpenAI refuses reasoning without the message or call that it led to (ask C5)."""
        kept: list[_Written] = []
        led_somewhere = False
        for written in reversed(self._written):
            if written["type"] != "reasoning":
                led_somewhere = written.get("role") == "assistant" or written["type"].endswith("_call")
            elif not led_somewhere:
                self._tell("reasoning_left_out", "reasoning that led to nothing was left out")
                continue
            kept.append(written)
        return kept[::-1]


def _keys(items: list[Item]) -> list[str]:
    """For each item the id of the call that it is or answers, or "".

    Upstreams count their ids anew on every turn, and clients that came to us from one bring such a history:
    an id that was answered and comes again is another call, and gets another id.
    """
    current: dict[str, str] = {}
    answered: set[str] = set()
    keys: list[str] = []
    for item in items:
        call_id, answers = fitting(call_of(item)[0]), fitting(output_of(item)[0])
        if call_id in answered:
            current[call_id] = fitting(f"{call_id}-pk{len(keys)}")
            answered.discard(call_id)
        elif call_id:
            current.setdefault(call_id, call_id)
        elif answers in current:
            answered.add(answers)
        whole = call_id or answers
        keys.append(current.get(whole, whole))
    return keys


def _without_id(item: Item) -> _Written:
    written: _Written = to_builtins(item)
    written.pop("id", None)
    return written


def _user(content: str | list[_Written]) -> _Written:
    return {"type": "message", "role": "user", "content": content}


def _said(text: str) -> _Written:
    return {"type": "message", "role": "assistant", "content": text}
