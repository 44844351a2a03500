"""The history of a request, in a form that every dialect can render.

The items of a Responses request are a flat list; upstreams expect turns: the user's message, the assistant's
reasoning, text and calls, the outputs of the calls. This module groups the list into turns, once for all
dialects: it collects system texts, matches calls with outputs, repairs orphans, and translates names and ids
to the upstream's. Everything left out or repaired adds a diagnostic.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import msgspec
from msgspec import Struct

from penstock.dialects.agent_messages import readable_parts
from penstock.dialects.breakpoints import BREAKPOINT, is_marked, marked_parts
from penstock.dialects.envelope import foreign_to, unseal
from penstock.dialects.plan import Plan
from penstock.protocol.content import ContentPart, InputText, Refusal
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import (
    AdditionalTools,
    AgentMessage,
    Compaction,
    Item,
    Message,
    ReasoningItem,
    ToolSearchOutput,
)
from penstock.protocol.large_json import max_values
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

ARGUMENT_VALUES = 500_000
"""The most JSON values in the arguments of all calls together. Arguments are strings, so no other limit
counts the values in them."""


class HistoryReasoning(Struct, frozen=True):
    """Reasoning. `payload` is sealed data to send back, if it came from this target.

    `foreign`: another upstream sealed it, so neither text nor payload may be sent as this target's own.
    """

    text: str = ""
    summary: str = ""
    payload: Any = None
    attached: str = "block"
    foreign: bool = False


class HistoryText(Struct, frozen=True):
    """Text of the assistant."""

    text: str
    refused: bool = False


class Call(Struct, frozen=True):
    """A tool call: the upstream's id and name, and the arguments as a JSON object in text form."""

    id: str
    name: str
    arguments: str


class ToolOutput(Struct, frozen=True):
    """The output of a call: text, or content parts."""

    id: str
    name: str
    content: str | list[ContentPart]


class UserTurn(Struct, frozen=True):
    parts: list[ContentPart]


class SystemTurn(Struct, frozen=True):
    """A system or developer message after the start of the conversation (decision 19)."""

    text: str


class AssistantTurn(Struct, frozen=True):
    """Everything the assistant produced between two other turns, in order."""

    pieces: list[HistoryReasoning | HistoryText | Call]


class OutputsTurn(Struct, frozen=True):
    """The outputs of the preceding assistant turn's calls, one per call, in the same order."""

    outputs: list[ToolOutput]


Turn = UserTurn | SystemTurn | AssistantTurn | OutputsTurn


class History(Struct, frozen=True):
    """`system` holds the instructions, then the leading system and developer messages, in order.

    `system_breakpoints`: after how many of these texts the client asks to cache the prompt.
    """

    system: list[str]
    turns: list[Turn]
    diagnostics: list[Diagnostic]
    system_breakpoints: list[int] = []


def history_of(plan: Plan) -> History:
    """Group the input of a request into turns."""
    return _HistoryBuilder(plan).build()


def framed(text: str) -> str:
    """Wrap a late system message as a user message, always in the same way: prompt caches rely on it
    (ask D5)."""
    return f"<system>\n{text}\n</system>"


class _HistoryBuilder:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._diagnostics = Diagnostics()
        self._system: list[str] = [plan.request.instructions] if plan.request.instructions else []
        self._system_breakpoints: list[int] = []
        self._turns: list[Turn] = []
        self._pieces: list[HistoryReasoning | HistoryText | Call] = []
        self._hosted: list[str] = []
        """The types of items in the open turn that have no form here, unless a sealed payload has them."""
        self._call_ids: dict[str, str] = {}
        """The calls of the open assistant turn: client id to upstream id."""
        self._upstream_ids = UniqueIds()
        """The upstream ids of the open assistant turn."""
        self._outputs: dict[str, deque[str | list[ContentPart]]] = {}
        """Outputs by the client's call id, wherever they are in the input."""
        self._late: set[int] = set()
        """Outputs that are sent in their own place, because their call has an earlier one (`id(item)`)."""
        self._argument_values = 0

    def build(self) -> History:
        items = self._items()
        calls = {call_id for item in items if (call_id := call_id_of(item))}
        self._late = late_outputs(items)
        for item in items:
            call_id = answered_call_id(item)
            if call_id and call_id in calls and id(item) not in self._late:
                content = content_of(item, self._plan.tools.upstream_names)
                self._outputs.setdefault(fitting(call_id), deque()).append(marked_parts(item, content))
        for item in items:
            self._add(item, calls)
        self._close_turn()
        for call_id in (call_id for call_id, rest in self._outputs.items() if rest):
            self._diagnostics.report(
                "repeated_output", f"the call {call_id!r} has several outputs; the first was sent"
            )
        return History(self._system, self._turns, self._diagnostics.entries, self._system_breakpoints)

    def _items(self) -> list[Item]:
        raw_input = self._plan.request.input
        if isinstance(raw_input, str):
            return [Message(role="user", content=raw_input)]
        return raw_input or []

    def _add(self, item: Item, calls: set[str]) -> None:
        if isinstance(item, Message):
            self._add_message(item)
        elif isinstance(item, ReasoningItem):
            self._add_reasoning(item)
        elif call_id_of(item):
            self._add_call(item)
        elif answered_call_id(item):
            self._add_output(item, calls)
        elif isinstance(item, Compaction):
            self._add_compaction(item)
        elif isinstance(item, AgentMessage):
            self._close_turn()
            self._turns.append(UserTurn(readable_parts(item)))
        elif not isinstance(item, AdditionalTools | ToolSearchOutput) and not self._is_sealed():
            self._hosted.append(item.type)

    def _is_sealed(self) -> bool:
        """Return whether the piece before an item of a server tool contains its data."""
        last = self._pieces[-1] if self._pieces else None
        return isinstance(last, HistoryReasoning) and last.attached == "item" and not last.foreign

    def _add_message(self, message: Message) -> None:
        if message.role == "assistant":
            self._add_assistant_message(message)
            return
        self._close_turn()
        if message.role in ("system", "developer"):
            text = _plain(message.content)
            if self._turns:
                self._turns.append(SystemTurn(text))
            elif text:
                self._system.append(text)
                if is_marked(message):
                    self._system_breakpoints.append(len(self._system))
            return
        content = marked_parts(message, message.content)
        parts: list[ContentPart] = [InputText(text=content)] if isinstance(content, str) else content
        if parts:
            self._turns.append(UserTurn(parts))

    def _add_assistant_message(self, message: Message) -> None:
        if is_marked(message):
            self._diagnostics.report("field_dropped", f"`{BREAKPOINT}` of an assistant message was dropped")
        if isinstance(message.content, str):
            self._pieces += [HistoryText(message.content)] if message.content else []
            return
        for part in message.content:
            if isinstance(part, Refusal):
                self._pieces.append(HistoryText(part.refusal, refused=True))
            elif text := getattr(part, "text", ""):
                self._pieces.append(HistoryText(text))

    def _add_reasoning(self, item: ReasoningItem) -> None:
        sealed = item.encrypted_content or ""
        envelope = unseal(sealed)
        origin = foreign_to(self._plan.target, sealed)
        foreign = bool(origin)
        if foreign:
            self._diagnostics.report("reasoning_left_out", f"reasoning from {origin} was left out")
        reasoning = HistoryReasoning(
            text=_plain(item.content or []),
            summary=_plain(item.summary),
            payload=None if envelope is None or foreign else envelope.payload,
            attached="block" if envelope is None else envelope.attached,
            foreign=foreign,
        )
        if reasoning.attached == "turn" and not foreign:
            self._hosted = []  # the payload contains them
        if reasoning.text or reasoning.summary or reasoning.payload is not None or foreign:
            self._pieces.append(reasoning)

    def _add_call(self, item: Item) -> None:
        given = call_id_of(item)
        call_id = fitting(given)
        if call_id in self._call_ids:
            self._diagnostics.report(
                "repeated_call", f"the call id {call_id!r} appears twice; the call was sent once"
            )
            return
        upstream_id = self._upstream_ids.first_free(original(call_id), call_id)
        self._call_ids[call_id] = upstream_id
        self._diagnostics.add_long_call_id(upstream_id, given)
        arguments = self._bounded(arguments_of(item))
        self._pieces.append(Call(upstream_id, self._plan.tools.upstream_name_of(item), arguments))

    def _bounded(self, arguments: str) -> str:
        """Limit the JSON values in arguments, because some dialects decode those of every call. Beyond the
        limit, the text is sent as one string, which costs no more than its characters."""
        self._argument_values += max_values(arguments)
        if self._argument_values <= ARGUMENT_VALUES:
            return arguments
        self._diagnostics.report(
            "odd_arguments", "the arguments of all calls together contain too many values to decode"
        )
        return _json({"arguments": arguments})

    def _add_output(self, item: Item, calls: set[str]) -> None:
        """Skip an output that has a call, which `_close_turn` adds; send any other as a user message."""
        self._close_turn()
        call_id = answered_call_id(item)
        if id(item) in self._late:
            self._diagnostics.report(
                "late_output", f"a second output of the call {call_id!r} was sent as a message"
            )
            title = LATE_OUTPUT.format(id=call_id)
        elif call_id in calls:
            return
        else:
            self._diagnostics.report(
                "orphan_output", f"the output of an unknown call {call_id!r} was sent as a message"
            )
            title = ORPHAN_OUTPUT
        content = content_of(item, self._plan.tools.upstream_names)
        parts: list[ContentPart] = [InputText(text=title)]
        parts += [InputText(text=content)] if isinstance(content, str) else content
        self._turns.append(UserTurn(parts))

    def _add_compaction(self, item: Compaction) -> None:
        envelope = unseal(item.encrypted_content)
        payload = envelope.payload if envelope is not None else None
        text = payload.get("text") if isinstance(payload, dict) else None
        if isinstance(text, str) and text:
            self._close_turn()
            self._turns.append(UserTurn([InputText(text=text)]))
        else:
            self._diagnostics.report("item_left_out", "a compaction from another upstream was left out")

    def _close_turn(self) -> None:
        """End the assistant's turn and add the outputs of its calls."""
        for type in self._hosted:
            self._diagnostics.report(
                "item_left_out", f"an item of type {type!r} cannot be sent to this upstream"
            )
        self._hosted = []
        if not self._pieces:
            return
        self._turns.append(AssistantTurn(self._pieces))
        names = {piece.id: piece.name for piece in self._pieces if isinstance(piece, Call)}
        outputs = [
            ToolOutput(upstream_id, names[upstream_id], self._output(call_id))
            for call_id, upstream_id in self._call_ids.items()
        ]
        if outputs:
            self._turns.append(OutputsTurn(outputs))
        self._pieces, self._call_ids, self._upstream_ids = [], {}, UniqueIds()

    def _output(self, call_id: str) -> str | list[ContentPart]:
        """Return the next output for this id: some upstreams reuse an id in every turn (quirk C19)."""
        outputs = self._outputs.get(call_id)
        if not outputs:
            self._diagnostics.report(
                "unanswered_call", f"the call {call_id!r} has no output; a placeholder was sent"
            )
            return NO_OUTPUT
        return outputs.popleft()


def late_outputs(items: list[Item]) -> set[int]:
    """Return the outputs (`id(item)`) of calls that have an output with other content already. Tools that run
    asynchronously answer a call at once, and send the result when there is one."""
    calls: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    last: dict[str, object] = {}
    late: set[int] = set()
    for item in items:
        if call_id := call_id_of(item):
            calls[call_id] += 1
        if not (call_id := answered_call_id(item)):
            continue
        content = content_of(item, lambda tools: [*map(repr, tools)])
        # Some upstreams use an id again for another call, which may then have an output of its own.
        if answers[call_id] < max(calls[call_id], 1):
            answers[call_id] += 1
        elif content != last[call_id]:
            late.add(id(item))
        last[call_id] = content
    return late


def _plain(content: str | list[ContentPart]) -> str:
    """Return the text of a message, without any other content."""
    if isinstance(content, str):
        return content
    texts = [getattr(part, "text", "") for part in content]
    return "\n".join(text for text in texts if text)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
