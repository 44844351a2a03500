"""Custom tools: free text. Upstreams that know only functions send it as `{"input": "…"}`.

The text is decoded while it arrives, escape by escape, so that a patch can be shown as it is written. A model
that ignores the wrapper still gets its text through: text that is no JSON object passes as it is, and an
object of another shape gives its only string, or else itself; each with a flaw to tell (ask B1).
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET

from penstock.lenient import parse_json
from penstock.protocol.events import CustomInputDeltaEvent, CustomInputDoneEvent, Event
from penstock.protocol.items import CustomToolCall
from penstock.tools.family import CallStream, Numbers
from penstock.tools.jsontext import SPACE, ObjectScanner, StringDecoder

_HEAD = ("{", '"input"', ":", '"')
_HEAD_LIMIT = 256
"""A wrapper's head is short; what is longer is read whole at the end, so the search stays bounded."""

RUN_BY_SERVER = frozenset(
    ("x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video", "view_image")
)
"""Tools that a server runs itself and yet reports as calls of custom tools (xAI, quirk R6). A client
answers a call of one of them only if its request declares a tool of that name."""


class CustomCallStream(CallStream):
    item_type: ClassVar[str] = "custom_tool_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._input: list[str] = []
        self._held: list[str] = []
        """Wrapper text that is not decoded yet: the head, or an object of another shape."""
        self._string: StringDecoder | None = None
        self._behind: list[str] = []
        """Wrapper text behind the input."""
        self._scanner = ObjectScanner()
        self._other_shape = False
        self._flaw = ""

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        return self._say(fragment if self.raw else self._decode(fragment), number)

    def may_end_with(self, arguments: str) -> bool:
        """Only the wrapper has an end. Code can begin with an object and go on."""
        try:
            return list(parse_json(arguments)) == ["input"]
        except ValueError:
            return False

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events: list[Event] = []
        if self._held:
            held = "".join(self._held)
            events = self._say(self._unwrap(held) if complete else held, number)
            self._held.clear()
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
    def whole(self) -> bool:
        return self.raw or self._scanner.ended or not self._scanner.is_object

    @property
    def flaw(self) -> str:
        if self._string is not None and self._string.flawed:
            return "the JSON around the input is broken"
        if "".join(self._behind).strip(SPACE) not in ("", "}"):
            return "something beside the input was left out"
        return self._flaw

    def _say(self, text: str, number: Numbers) -> list[Event]:
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
        self._held.append(fragment)
        if self._other_shape:
            return ""
        text = "".join(self._held)
        length = _head_length(text)
        if length > 0:
            self._held.clear()
            self._string = StringDecoder()
            return self._decode_input(self._string, text[length:])
        if length < 0 and not text.lstrip(SPACE).startswith("{"):
            self.raw = True
            self._flaw = "the input is not wrapped in JSON"
            self._held.clear()
            return text
        self._other_shape = length < 0
        return ""

    def _decode_input(self, string: StringDecoder, text: str) -> str:
        if string.ended:
            self._behind.append(text)
            return ""
        decoded = string.feed(text)
        if string.ended:
            self._behind.append(string.rest)
        return decoded

    def _unwrap(self, text: str) -> str:
        """The input in an object that is not the wrapper we asked for."""
        if not text.strip(SPACE):
            return ""
        self._flaw = "the input is wrapped in another JSON object than asked for"
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
    """How long the wrapper's head in `text` is; 0 while it may still come, -1 if it will not."""
    position = 0
    for token in _HEAD:
        position += len(text[position:]) - len(text[position:].lstrip(SPACE))
        if not text.startswith(token, position):
            cut_short = token.startswith(text[position:]) and position < _HEAD_LIMIT
            return 0 if cut_short else -1
        position += len(token)
    return position
