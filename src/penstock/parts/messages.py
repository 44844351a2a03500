"""An editor's messages as the input of a request, and its tools as those of the request.

A message becomes one message item, split where tools were called or gave back; reasoning stands where it was
thought. The list is one that every endpoint takes: each call has one output behind it, each output a call,
and no id is over the limit (ask B8). What is repaired or left out leaves a diagnostic.

The input depends on nothing but what is given, and a conversation that grew begins with the same items: the
prompt caches of the endpoints live from that (ask D5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

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
from penstock.parts.exchanges import NOWHERE, Spot, ToolExchange, ToolExchanges
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


class TranslatedMessages(Struct, frozen=True):
    """With `previous_response_id` the endpoint knows what came before `input`: it is named, not sent."""

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
    system_role: str = "system",
) -> TranslatedMessages:
    """The input items for a conversation.

    With `follow_marker`, and a marker in the conversation that `model` at `endpoint` left there, only what
    came after it is sent. Call again with `follow_marker=False` when the endpoint has lost the response.
    """
    exchanges = ToolExchanges(messages)
    told = Diagnostics()
    prompt = system_prompt_of(system_prompt, model_options or {})
    follows = follow_marker and model and endpoint
    marked = _newest_marker(messages, model, endpoint, prompt) if follows else None
    if marked is not None:
        number, response_id = marked
        if _can_continue(exchanges, number):
            continued = _Translator(messages, exchanges, model, system_role, Diagnostics())
            if items := continued.after(number):
                return TranslatedMessages(items, response_id, continued.told.told)
        told.tell("marker_not_used", "the whole history was sent although a response in it is marked")
    translator = _Translator(messages, exchanges, model, system_role, told)
    items = translator.whole(prompt)
    return TranslatedMessages(items, None, told.told)


def system_prompt_of(given: str | None, options: Mapping[str, Any]) -> str:
    """The prompt that comes first: as it is given, else as the options have it."""
    if given is not None:
        return given
    prompts = (options.get(name) for name in ("system_prompt", "systemPrompt"))
    return next((prompt for prompt in prompts if prompt and isinstance(prompt, str)), "")


def instructions_of(messages: Sequence[ChatMessage], system_prompt: str) -> str:
    """All that the system says in a conversation, for telling whether a response was made under it."""
    said = [
        part.value
        for message in messages
        if message.role == Role.SYSTEM
        for part in message.content
        if isinstance(part, TextPart)
    ]
    return "\0".join([system_prompt, *said])


def _newest_marker(
    messages: Sequence[ChatMessage], model: str, endpoint: str, prompt: str
) -> tuple[int, str] | None:
    """The newest message that this model at this endpoint marked, and its response (decision 28).

    Not when what came before it was compacted or edited: the endpoint would answer to what it remembers.
    """
    marked = [number for number, message in enumerate(messages) if _markers(message)]
    behind = [*histories(messages[: marked[-1] + 1])] if marked else []
    for number in reversed(marked):
        instructions = instructions_of(messages[:number], prompt)
        for part in reversed(_markers(messages[number])):
            if found := marked_response(part, model, endpoint, instructions, behind[number + 1]):
                return number, found
    return None


def _markers(message: ChatMessage) -> list[DataPart]:
    if message.role != Role.ASSISTANT:
        return []
    data = [part for part in message.content if isinstance(part, DataPart)]
    return [part for part in data if part.mime == STATEFUL_MARKER]


def _can_continue(exchanges: Iterable[ToolExchange], marked: int) -> bool:
    """Will the endpoint understand the rest, behind its response of the marked message?

    Not when an id had to change, because it knows its calls by their own (decision 21). Nor when a call
    from before the response gets its output only now: a placeholder has gone out for it, and stands.
    """
    for each in exchanges:
        if each.call[0] >= marked and not each.is_kept:
            return False
        if each.call[0] < marked <= each.output[0]:
            return False
    return True


class _Translator:
    """One walk over the messages."""

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        exchanges: ToolExchanges,
        model: str,
        system_role: str,
        told: Diagnostics,
    ) -> None:
        self.told = told
        self._messages = messages
        self._exchanges = exchanges
        self._model = model
        self._system_role = system_role
        self._start: Spot = (0, 0)
        self._spot: Spot = (0, 0)
        """Where the part at hand stands."""
        self._items: list[Item] = []
        self._draft = Draft("user", USER)
        self._run: list[ToolExchange] = []
        """The calls that the items end with. What they lack is sent when the run is over."""
        self._thought: set[str] = set()
        """The reasoning that was sent: endpoints refuse an item's id that comes twice."""

    def whole(self, system_prompt: str) -> list[Item]:
        if system_prompt:
            self._add(
                Message(role=self._system_role, content=[InputText(text=join_surrogates(system_prompt))])
            )
        return self._walk()

    def after(self, number: int) -> list[Item]:
        """What follows a message that the endpoint has. The calls in it must still be answered."""
        self._start = (number + 1, 0)
        self._run = [each for each in self._exchanges if each.call[0] == number]
        return self._walk()

    def _walk(self) -> list[Item]:
        self._end_run()
        for number in range(self._start[0], len(self._messages)):
            self._take_message(number, self._messages[number])
        return self._items

    def _take_message(self, number: int, message: ChatMessage) -> None:
        thoughts = self._thoughts(message)
        self._draft = Draft(*self._speaker(message))
        for index, part in enumerate(message.content):
            self._spot = (number, index)
            for thought in thoughts.items.get(index, ()):
                self._add_thought(thought)
            _TAKERS.get(type(part), _Translator._leave_out)(self, part)
        self._end_message()
        # A run ends with its message: one that could grow would change what was sent before (ask D5).
        self._end_run()

    def _speaker(self, message: ChatMessage) -> tuple[str, ContentPlace]:
        if message.name:
            self.told.tell("name_left_out", "the name of a speaker was left out: items have none")
        if message.role == Role.SYSTEM:
            return self._system_role, SYSTEM
        if message.role == Role.ASSISTANT:
            return "assistant", ASSISTANT
        if message.role != Role.USER:
            self.told.tell("unknown_role", f"a message of the role {message.role} was sent as the user's")
        return "user", USER

    def _thoughts(self, message: ChatMessage) -> ReturnedReasoning:
        thoughts = returned_reasoning(message.content, self._model)
        if message.role != Role.ASSISTANT:
            # Only the assistant thinks: whatever this is, it is no reasoning item of ours.
            thoughts = ReturnedReasoning({}, thoughts.left_out + len(thoughts.items))
        for _ in range(thoughts.left_out):
            self.told.tell("thinking_left_out", "thinking that is not this model's own was left out")
        return thoughts

    def _take_text(self, part: TextPart) -> None:
        if is_for_model(part):
            self._draft.write(part.value)

    def _take_data(self, part: DataPart) -> None:
        content = content_of(part, self._draft.place, self.told) if is_for_model(part) else None
        if content is not None:
            self._draft.attach(content)

    def _take_thinking(self, _: ThinkingPart) -> None:
        """Thoughts are blocks of parts: `_take_message` has them already."""

    def _leave_out(self, part: object) -> None:
        self.told.tell("part_left_out", f"a {type(part).__name__} in a message was left out")

    def _take_call(self, part: ToolCallPart) -> None:
        exchange = self._exchanges[self._spot]
        if exchange.call != self._spot:
            # Editors keep a call that a provider doubled, with both of its results (editor 6).
            self.told.tell(
                "repeated_call", f"the call {part.call_id!r} came more than once; it was sent once"
            )
            return
        self._end_message()
        call = FunctionCall(
            call_id=exchange.wire_id, name=self._name(part.name), arguments=self._arguments(part)
        )
        self._items.append(call)
        self._run.append(exchange)

    def _name(self, name: str) -> str:
        """A name that may stand in a call: other providers have others, and one of them fails it all."""
        lawful = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"
        if lawful != name:
            self.told.tell("tool_renamed", f"calls of {name!r} were sent as calls of {lawful!r}")
        return lawful

    def _arguments(self, part: ToolCallPart) -> str:
        value, is_object = _as_object(part.input)
        if not is_object:
            self.told.tell("odd_arguments", f"the input of a call of {part.name!r} was made an object")
        try:
            return msgspec.json.encode(value).decode()
        except UnicodeEncodeError:  # half a character, which JSON text cannot hold
            return join_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def _take_result(self, part: ToolResultPart) -> None:
        exchange = self._exchanges[self._spot]
        called = repr(part.call_id)
        if exchange.call == NOWHERE:
            self.told.tell("orphan_output", f"the output of an unknown call {called} was sent as a message")
            self._add_orphan(part)
        elif exchange.output != self._spot:
            self.told.tell("repeated_output", f"the call {called} has several outputs; the first was sent")
        elif self._spot > exchange.call:
            self._end_message()
            self._add(self._output(exchange))

    def _add_orphan(self, part: ToolResultPart) -> None:
        content = result_of(part.content, part.is_error, USER, self.told)
        parts: list[ContentPart] = [InputText(text=ORPHAN_OUTPUT)]
        parts += [InputText(text=content)] if isinstance(content, str) else content
        self._end_message()
        self._add(Message(role="user", content=parts))

    def _output(self, exchange: ToolExchange) -> FunctionCallOutput:
        content: str | list[ContentPart] = NO_OUTPUT
        if exchange.result is not None:
            content = result_of(exchange.result.content, exchange.result.is_error, TOOL_OUTPUT, self.told)
        else:
            called = repr(exchange.wire_id)
            self.told.tell("unanswered_call", f"the call {called} has no output; a placeholder was sent")
        return FunctionCallOutput(call_id=exchange.wire_id, output=content)

    def _add_thought(self, item: ReasoningItem) -> None:
        if item.id and item.id in self._thought:
            return
        self._thought.add(item.id or "")
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
        """Every call gets what does not come by itself: a placeholder, or an output that stood before it."""
        run, self._run = self._run, []
        for each in run:
            if each.output < max(each.call, self._start):
                self._items.append(self._output(each))


_TAKERS: dict[type, Callable[[_Translator, Any], None]] = {
    TextPart: _Translator._take_text,
    DataPart: _Translator._take_data,
    ThinkingPart: _Translator._take_thinking,
    ToolCallPart: _Translator._take_call,
    ToolResultPart: _Translator._take_result,
}


def _as_object(value: object) -> tuple[dict[str, Any], bool]:
    """A call's input as an object, and whether it was one: other providers pass on whatever came."""
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
"""The editor's two modes, as its numbers and by name."""


def translate_tools(tools: Sequence[ChatTool]) -> list[FunctionTool]:
    """Each tool as a function. Endpoints refuse a name that is declared twice: the first stands (ask B11).

    `strict` is said to be off: where nothing is said some endpoints take it as on, and then refuse schemas
    with optional properties, which editors' tools have (ask H2).
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
    """The choice among the tools. Without tools there is none to make, and endpoints refuse one."""
    if not tools or mode is None:
        return UNSET
    return _MODES.get(mode, UNSET)
