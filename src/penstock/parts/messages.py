"""Translate an editor's messages and tools to the input and tools of a request.

A message becomes one message item, split at tool calls and results; reasoning keeps its position. Every
endpoint accepts the list: each call is followed by one output, each output has a call, and no id exceeds the
limit (ask B8). Everything that is repaired or omitted adds a diagnostic.

The input depends only on the arguments, and a longer conversation begins with the same items: the endpoints'
prompt caches need this (ask D5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.errors import DecodeError
from penstock.lenient import join_surrogates
from penstock.parts.content import (
    ASSISTANT,
    SYSTEM,
    TOOL_OUTPUT,
    USER,
    ContentPlace,
    Draft,
    content_of,
    is_for_model,
    result_of,
)
from penstock.parts.exchanges import NO_POSITION, Position, ToolExchange, ToolExchanges, from_editor
from penstock.parts.markers import STATEFUL_MARKER, histories, marked_response
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.reasoning import ReturnedReasoning, returned_reasoning
from penstock.protocol.content import ContentPart, InputText
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, ReasoningItem
from penstock.protocol.tools import FunctionTool, ToolChoice
from penstock.protocol.wire import parse
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.call_ids import NO_OUTPUT, ORPHAN_OUTPUT

SystemRole = Literal["system", "developer"]
"""The role of system messages (decision 25)."""


class TranslatedMessages(Struct, frozen=True):
    """The input of a request. `previous_response_id`, if set, references everything before `input`."""

    input: list[Item]
    previous_response_id: str | None = None
    diagnostics: list[Diagnostic] = []


def translate_messages(
    messages: Sequence[ChatMessage],
    *,
    system_prompt: str | None = None,
    model_options: Mapping[str, Any] | None = None,
    model: str = "",
    endpoint: str = "",
    follow_marker: bool = True,
    system_role: SystemRole = "system",
) -> TranslatedMessages:
    """Return the input items for a conversation.

    With `follow_marker`, and a marker of `model` at `endpoint` in the conversation, only what follows the
    marker is sent. Call again with `follow_marker=False` if the endpoint no longer has the response.
    """
    exchanges = ToolExchanges(messages)
    diagnostics = Diagnostics()
    prompt = system_prompt_of(system_prompt, model_options or {})
    may_follow = follow_marker and model and endpoint
    marked = _newest_marker(messages, model, endpoint, prompt) if may_follow else None
    if marked is not None:
        number, response_id = marked
        if _can_continue(exchanges, number):
            own = Diagnostics()
            translator = _Translator(messages, exchanges, model, system_role, own)
            if items := translator.after(number):
                return TranslatedMessages(items, response_id, own.entries)
        diagnostics.report(
            "marker_not_used", "the marked response cannot be continued; the full history was sent"
        )
    translator = _Translator(messages, exchanges, model, system_role, diagnostics)
    items = translator.full(prompt)
    return TranslatedMessages(items, None, diagnostics.entries)


def system_prompt_of(given: str | None, options: Mapping[str, Any]) -> str:
    """Return the system prompt: `given`, or else the one in the options."""
    if given is not None:
        return given
    prompts = (options.get(name) for name in ("system_prompt", "systemPrompt"))
    return next((prompt for prompt in prompts if prompt and isinstance(prompt, str)), "")


def instructions_of(messages: Sequence[ChatMessage], system_prompt: str) -> str:
    """Return the text of all system messages; a marker is valid only if it is unchanged."""
    texts = [
        part.value
        for message in messages
        if message.role == Role.SYSTEM
        for part in message.content
        if isinstance(part, TextPart)
    ]
    return "\0".join([system_prompt, *texts])


def _newest_marker(
    messages: Sequence[ChatMessage], model: str, endpoint: str, prompt: str
) -> tuple[int, str] | None:
    """Return the newest message with a valid marker of this model, and its response id (decision 28).

    A marker is invalid if the messages before it were compacted or edited: the endpoint has the old ones.
    """
    marked = [number for number, message in enumerate(messages) if _markers(message)]
    fingerprints = [*histories(messages[: marked[-1] + 1])] if marked else []
    for number in reversed(marked):
        instructions = instructions_of(messages[:number], prompt)
        for part in reversed(_markers(messages[number])):
            if found := marked_response(part, model, endpoint, instructions, fingerprints[number + 1]):
                return number, found
    return None


def _markers(message: ChatMessage) -> list[DataPart]:
    if message.role != Role.ASSISTANT:
        return []
    data = [part for part in message.content if isinstance(part, DataPart)]
    return [part for part in data if part.mime == STATEFUL_MARKER]


def _can_continue(exchanges: Iterable[ToolExchange], marked: int) -> bool:
    """Return whether the endpoint can continue from the response of the marked message.

    It cannot if a call id had to change, because it knows its calls by their own ids (decision 21). Nor can
    it if a call before the response gets its output only now: a placeholder was already sent for it.
    """
    for each in exchanges:
        if each.call[0] >= marked and not each.has_original_id:
            return False
        if each.call[0] < marked <= each.output[0]:
            return False
    return True


class _Translator:
    """Translates the messages in one pass."""

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        exchanges: ToolExchanges,
        model: str,
        system_role: SystemRole,
        diagnostics: Diagnostics,
    ) -> None:
        self._diagnostics = diagnostics
        self._messages = messages
        self._exchanges = exchanges
        self._model = model
        self._system_role = system_role
        self._start: Position = (0, 0)
        self._position: Position = (0, 0)
        """The position of the current part."""
        self._items: list[Item] = []
        self._draft = Draft("user", USER)
        self._run: list[ToolExchange] = []
        """The calls at the end of the items. Missing outputs are added when the run ends."""
        self._reasoning_ids: set[str] = set()
        """The reasoning items that were added: endpoints reject a duplicate id."""

    def full(self, system_prompt: str) -> list[Item]:
        if system_prompt:
            self._add(
                Message(role=self._system_role, content=[InputText(text=join_surrogates(system_prompt))])
            )
        return self._translate()

    def after(self, number: int) -> list[Item]:
        """Translate what follows a message that the endpoint has. Its calls still need outputs."""
        self._start = (number + 1, 0)
        self._run = [each for each in self._exchanges if each.call[0] == number]
        return self._translate()

    def _translate(self) -> list[Item]:
        self._end_run()
        for number in range(self._start[0], len(self._messages)):
            self._add_message(number, self._messages[number])
        return self._items

    def _add_message(self, number: int, message: ChatMessage) -> None:
        reasoning = self._reasoning(message)
        self._draft = Draft(*self._role_and_place(message))
        for index, part in enumerate(message.content):
            self._position = (number, index)
            for item in reasoning.items.get(index, ()):
                self._add_reasoning(item)
            _HANDLERS.get(type(part), _Translator._omit)(self, part)
        self._end_message()
        # End the run with its message: if it could grow, items that were already sent would change (ask D5).
        self._end_run()

    def _role_and_place(self, message: ChatMessage) -> tuple[str, ContentPlace]:
        if message.name:
            self._diagnostics.report(
                "name_left_out", "the name in a message was omitted: items have no such field"
            )
        if message.role == Role.SYSTEM:
            return self._system_role, SYSTEM
        if message.role == Role.ASSISTANT:
            return "assistant", ASSISTANT
        if message.role != Role.USER:
            self._diagnostics.report(
                "unknown_role", f"a message with the role {message.role} was sent as a user message"
            )
        return "user", USER

    def _reasoning(self, message: ChatMessage) -> ReturnedReasoning:
        reasoning = returned_reasoning(message.content, self._model)
        if message.role != Role.ASSISTANT:
            # Only assistant messages can contain our reasoning items.
            reasoning = ReturnedReasoning({}, reasoning.omitted + len(reasoning.items))
        for _ in range(reasoning.omitted):
            self._diagnostics.report("thinking_left_out", "thinking of another model or provider was omitted")
        return reasoning

    def _add_text(self, part: TextPart) -> None:
        if is_for_model(part):
            self._draft.write(part.value)

    def _add_data(self, part: DataPart) -> None:
        content = content_of(part, self._draft.place, self._diagnostics) if is_for_model(part) else None
        if content is not None:
            self._draft.attach(content)

    def _skip_thinking(self, _: ThinkingPart) -> None:
        """Do nothing: `_add_message` handles the thinking blocks of a message."""

    def _omit(self, part: object) -> None:
        self._diagnostics.report("part_left_out", f"a {type(part).__name__} in a message was omitted")

    def _add_call(self, part: ToolCallPart) -> None:
        exchange = self._exchanges[self._position]
        if exchange.call != self._position:
            # Editors store a repeated call twice, with both of its results (editor 6).
            self._diagnostics.report(
                "repeated_call", f"the call {part.call_id!r} appears more than once; it was sent once"
            )
            return
        self._diagnostics.add_long_call_id(exchange.wire_id, from_editor(part.call_id))
        self._end_message()
        call = FunctionCall(
            call_id=exchange.wire_id, name=self._valid_name(part.name), arguments=self._arguments(part)
        )
        self._items.append(call)
        self._run.append(exchange)

    def _valid_name(self, name: str) -> str:
        """Return a valid tool name: a single invalid one, from another provider, fails the request."""
        valid = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"
        if valid != name:
            self._diagnostics.report("tool_renamed", f"calls to {name!r} were sent as calls to {valid!r}")
        return valid

    def _arguments(self, part: ToolCallPart) -> str:
        value, is_object = _as_object(part.input)
        if not is_object:
            self._diagnostics.report(
                "odd_arguments", f"the input of a call to {part.name!r} was converted to an object"
            )
        try:
            return msgspec.json.encode(value).decode()
        except UnicodeEncodeError:  # half a surrogate pair, which JSON text cannot contain
            return join_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def _add_result(self, part: ToolResultPart) -> None:
        exchange = self._exchanges[self._position]
        call_id = repr(part.call_id)
        if exchange.call == NO_POSITION:
            self._diagnostics.report(
                "orphan_output", f"the output of an unknown call {call_id} was sent as a message"
            )
            self._add_orphan(part)
        elif exchange.output != self._position:
            self._diagnostics.report(
                "repeated_output", f"the call {call_id} has several outputs; the first was sent"
            )
        elif self._position > exchange.call:
            self._end_message()
            self._add(self._output(exchange))

    def _add_orphan(self, part: ToolResultPart) -> None:
        content = result_of(part.content, part.is_error, USER, self._diagnostics)
        parts: list[ContentPart] = [InputText(text=ORPHAN_OUTPUT)]
        parts += [InputText(text=content)] if isinstance(content, str) else content
        self._end_message()
        self._add(Message(role="user", content=parts))

    def _output(self, exchange: ToolExchange) -> FunctionCallOutput:
        content: str | list[ContentPart] = NO_OUTPUT
        if exchange.result is not None:
            content = result_of(
                exchange.result.content, exchange.result.is_error, TOOL_OUTPUT, self._diagnostics
            )
        else:
            call_id = repr(exchange.wire_id)
            self._diagnostics.report(
                "unanswered_call", f"the call {call_id} has no output; a placeholder was sent"
            )
        return FunctionCallOutput(call_id=exchange.wire_id, output=content)

    def _add_reasoning(self, item: ReasoningItem) -> None:
        if item.id and item.id in self._reasoning_ids:
            return
        self._reasoning_ids.add(item.id or "")
        self._end_message()
        self._add(item)

    def _end_message(self) -> None:
        message = self._draft.take()
        if message is not None:
            self._add(message)

    def _add(self, item: Item) -> None:
        self._end_run()
        self._items.append(item)

    def _end_run(self) -> None:
        """Add the outputs that do not follow later: placeholders, and outputs that precede their call."""
        run, self._run = self._run, []
        for each in run:
            if each.output < max(each.call, self._start):
                self._items.append(self._output(each))


_HANDLERS: dict[type, Callable[[_Translator, Any], None]] = {
    TextPart: _Translator._add_text,
    DataPart: _Translator._add_data,
    ThinkingPart: _Translator._skip_thinking,
    ToolCallPart: _Translator._add_call,
    ToolResultPart: _Translator._add_result,
}


def _as_object(value: object) -> tuple[dict[str, Any], bool]:
    """Return a call's input as an object, and whether it was one: other providers do not check it."""
    if isinstance(value, Mapping):
        return dict(value), True
    parsed = value
    if isinstance(value, str):
        try:
            parsed = parse(value)
        except DecodeError:
            parsed = value or None
    if isinstance(parsed, dict):
        return parsed, False
    return {} if parsed is None else {"value": parsed}, False


_MODES: dict[int | str, str] = {1: "auto", "auto": "auto", 2: "required", "required": "required"}
"""The editor's two tool modes, by number and by name."""


def translate_tools(tools: Sequence[ChatTool]) -> list[FunctionTool]:
    """Return each tool as a function. If a name is declared twice, use the first: endpoints reject duplicates
    (ask B11).

    `strict` is set to false: some endpoints default to true, and then reject schemas with optional
    properties, which editors' tools have (ask H2).
    """
    declared: dict[str, FunctionTool] = {}
    for tool in tools:
        if tool.name not in declared:
            declared[tool.name] = FunctionTool(
                name=tool.name,
                description=tool.description or UNSET,
                parameters=dict(tool.input_schema or {"type": "object", "properties": {}}),
                strict=False,
            )
    return list(declared.values())


def translate_tool_mode(mode: int | str | None, tools: Sequence[ChatTool]) -> ToolChoice | UnsetType:
    """Return the tool choice. It is unset without tools, because endpoints would reject it."""
    if not tools or mode is None:
        return UNSET
    return _MODES.get(mode, UNSET)
