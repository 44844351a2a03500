"""Custom tools: free-text input. Upstreams that support only functions send it as `{"input": "…"}`.

The text is decoded as it arrives, escape by escape, so that a patch can be shown while it is written. If the
model ignores the wrapper, its text is still delivered: text that is not a JSON object passes unchanged; an
object of another shape yields its only string, or else the object itself. Both set `flaw` (ask B1).
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET

from penstock.lenient import parse_json
from penstock.protocol.events import CustomInputDeltaEvent, CustomInputDoneEvent, Event
from penstock.protocol.items import CustomToolCall, CustomToolCallOutput
from penstock.protocol.tools import CustomTool
from penstock.tools.family import CallStream, Declaration, Numbers, ToolFamily, json_of
from penstock.tools.jsontext import SPACE, ObjectScanner, StringDecoder

_HEAD = ("{", '"input"', ":", '"')
_HEAD_LIMIT = 256
"""Maximum length of a wrapper's head. Longer text is parsed at the end, so that the search stays bounded."""

RUN_BY_SERVER = frozenset(
    ("x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video", "view_image")
)
"""Tools that a server runs itself but reports as custom tool calls (xAI, quirk R6). A client answers such a
call only if its request declares a tool with that name."""


class CustomCallStream(CallStream):
    item_type: ClassVar[str] = "custom_tool_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._input: list[str] = []
        self._undecoded: list[str] = []
        """Wrapper text that is not decoded yet: the head, or an object of another shape."""
        self._string: StringDecoder | None = None
        self._after_input: list[str] = []
        """Wrapper text after the input."""
        self._scanner = ObjectScanner()
        self._other_shape = False
        self._flaw = ""

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        return self._input_delta(fragment if self.raw else self._decode(fragment), number)

    def may_end_with(self, arguments: str) -> bool:
        """Return whether `arguments` is the wrapper. Other text may go on: code can begin with an object."""
        try:
            return list(parse_json(arguments)) == ["input"]
        except ValueError:
            return False

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events: list[Event] = []
        if self._undecoded:
            text = "".join(self._undecoded)
            events = self._input_delta(self._unwrap(text) if complete else text, number)
            self._undecoded.clear()
        done = CustomInputDoneEvent(
            sequence_number=number(),
            item_id=self.item_id,
            output_index=self.output_index,
            input="".join(self._input),
        )
        return [*events, done]

    def item(self, status: str) -> CustomToolCall:
        return CustomToolCall(
            id=self.item_id,
            call_id=self.call_id,
            name=self.identity.name,
            namespace=self.identity.namespace or UNSET,
            input="".join(self._input),
            status=status,
        )

    @property
    def is_complete(self) -> bool:
        return self.raw or self._scanner.ended or not self._scanner.is_object

    @property
    def flaw(self) -> str:
        if self._string is not None and self._string.flawed:
            return "the JSON around the input is broken"
        if "".join(self._after_input).strip(SPACE) not in ("", "}"):
            return "fields other than the input were dropped"
        return self._flaw

    def _input_delta(self, text: str, number: Numbers) -> list[Event]:
        if not text:
            return []
        self._input.append(text)
        return [
            CustomInputDeltaEvent(
                sequence_number=number(), item_id=self.item_id, output_index=self.output_index, delta=text
            )
        ]

    def _decode(self, fragment: str) -> str:
        self._scanner.feed(fragment)
        if self._string is not None:
            return self._decode_input(self._string, fragment)
        self._undecoded.append(fragment)
        if self._other_shape:
            return ""
        text = "".join(self._undecoded)
        length = _head_length(text)
        if length > 0:
            self._undecoded.clear()
            self._string = StringDecoder()
            return self._decode_input(self._string, text[length:])
        if length < 0 and not text.lstrip(SPACE).startswith("{"):
            self.raw = True
            self._flaw = "the input is not wrapped in JSON"
            self._undecoded.clear()
            return text
        self._other_shape = length < 0
        return ""

    def _decode_input(self, string: StringDecoder, text: str) -> str:
        if string.ended:
            self._after_input.append(text)
            return ""
        decoded = string.feed(text)
        if string.ended:
            self._after_input.append(string.rest)
        return decoded

    def _unwrap(self, text: str) -> str:
        """Return the input from an object that is not the expected wrapper."""
        if not text.strip(SPACE):
            return ""
        self._flaw = "the input is wrapped in an unexpected JSON object"
        try:
            wrapper = parse_json(text)
        except ValueError:
            return text
        if not wrapper:
            return ""
        if isinstance(wrapper.get("input"), str):
            return str(wrapper["input"])
        strings = [value for value in wrapper.values() if isinstance(value, str)]
        return strings[0] if len(strings) == 1 else text


def _head_length(text: str) -> int:
    """Return the length of the wrapper's head in `text`; 0 if it may still follow, -1 if it cannot."""
    position = 0
    for token in _HEAD:
        position += len(text[position:]) - len(text[position:].lstrip(SPACE))
        if not text.startswith(token, position):
            cut_short = token.startswith(text[position:]) and position < _HEAD_LIMIT
            return 0 if cut_short else -1
        position += len(token)
    return position


_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""Free text as a function's argument (ask B1)."""


def _declare(tool: CustomTool) -> Declaration:
    """Put the format into the description: a function has no other place for a grammar (ask B1)."""
    format = tool.format or {}
    definition = format.get("definition")
    paragraphs = [tool.description or ""]
    if isinstance(definition, str) and definition:
        syntax = format.get("syntax")
        named = f"{syntax} grammar" if isinstance(syntax, str) and syntax else "grammar"
        paragraphs.append(f"`input` must match this {named}:\n{definition}")
    return Declaration("\n\n".join(paragraph for paragraph in paragraphs if paragraph), _PARAMETERS)


FAMILY = ToolFamily(
    type="custom",
    is_named=True,
    call=CustomToolCall,
    output=CustomToolCallOutput,
    stream=CustomCallStream,
    declare=_declare,
    arguments=lambda call: json_of({"input": call.input}),
    content=lambda output, _: output.output,
)
