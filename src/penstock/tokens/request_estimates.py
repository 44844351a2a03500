"""How many tokens a request is, and what a turn used whose upstream does not say (ask D1, ask D4).

`penstock.tokens` counts; this file knows what of a request and of an item reaches a model. Whatever comes is
counted and nothing raises: an item of an unknown type by the JSON of what it holds, without the bytes in it,
which no model reads as text. It runs where all streams run, so the work is bounded: a request with more text
than a tokenizer reads in some fifty milliseconds has the rest of it estimated by its bytes.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, UnsetType

from penstock.dialects.toolset import declared_tools
from penstock.parts.parts import ChatTool, DataPart
from penstock.protocol import items
from penstock.protocol.content import ContentPart, InputFile, InputImage, InputVideo
from penstock.protocol.items import Compaction, Item, Message, ReasoningItem
from penstock.protocol.request import CreateResponse, JsonSchemaFormat
from penstock.protocol.tools import CustomTool, FunctionTool, NamespaceTool, Tool
from penstock.protocol.wire import Wire, to_builtins
from penstock.stream.deltas import UsageDelta
from penstock.tokens.counter import TokenCounter, sealed_tokens
from penstock.tokens.encodings import encoding_for
from penstock.tokens.media import PER_PAGE, file_tokens, image_tokens

MOST_TEXT = 1_000_000
"""Characters that are counted exactly, of a request and of an answer: a quarter of a million tokens."""

BYTES_PER_TOKEN = 4
"""For the text beyond that. English and code have four, and scripts of three bytes a character about so."""

HEAD = 262_144
"""Bytes of a file that are looked at where all of it is too much. An image has its size in there."""

_CALLS: Mapping[type, tuple[str, ...]] = {
    items.FunctionCall: ("namespace", "name", "arguments"),
    items.CustomToolCall: ("namespace", "name", "input"),
    items.ToolSearchCall: ("type", "arguments"),
    items.LocalShellCall: ("type", "action"),
    items.ShellCall: ("type", "action"),
    items.ApplyPatchCall: ("type", "operation"),
    items.WebSearchCall: ("type", "action"),
}
_RESULTS: Mapping[type, tuple[str, ...]] = {
    items.FunctionCallOutput: ("output",),
    items.CustomToolCallOutput: ("output",),
    items.ToolSearchOutput: (),
    items.LocalShellCallOutput: ("output",),
    items.ShellCallOutput: ("output",),
    items.ApplyPatchCallOutput: ("status", "output"),
}
"""What a model reads of calls and of what came of them. Tools that a search found are counted as tools."""

_ELSEWHERE = (items.ItemReference, items.AdditionalTools)
"""Items that are counted where what they stand for is: with the history, with the tools."""

_DEEPEST = 32
_LEAST_BASE64 = 256
"""A shorter text may be a word, for all that one can see."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{60,}\r?\n)*[A-Za-z0-9+/_-]+={0,2}\s*", re.ASCII)
"""In one piece, or in lines as mail has them. Words have spaces between them."""
_DATA_URL = re.compile(r"data:([^,;]{0,100})[^,]{0,200};base64,", re.IGNORECASE)
_BINARY = "application/octet-stream"


class _Bytes(Struct, frozen=True):
    mime: str
    base64: str


def count_input(request: CreateResponse, model: str, counter: TokenCounter) -> int:
    """The tokens of a request as this model gets it: what `POST /v1/responses/input_tokens` answers."""
    meter = _Meter(model, counter)
    tokens = encoding_for(model).template.reply
    if request.instructions:
        tokens += meter.message(request.instructions)
    if isinstance(request.input, str):
        tokens += meter.message(request.input)
    else:
        tokens += sum(meter.item(item) for item in request.input or ())
    if request.text and isinstance(wanted := request.text.format, JsonSchemaFormat):
        tokens += meter.value(wanted.schema)  # it is part of the prompt
    return tokens + meter.tools(declared_tools(request))


def estimate_usage(
    request: CreateResponse, model: str, output: Sequence[Item], counter: TokenCounter
) -> UsageDelta:
    """What a turn used, where its upstream told nothing. `output` is what it made, ended or not."""
    meter = _Meter(model, counter, framed=False)
    counts = [(item, meter.item(item)) for item in output]
    return UsageDelta(
        input_tokens=count_input(request, model, counter),
        output_tokens=sum(tokens for _, tokens in counts),
        reasoning_tokens=sum(tokens for item, tokens in counts if isinstance(item, ReasoningItem)),
        estimated=True,
    )


class _Meter:
    """Counts for one model, and keeps to what may be counted exactly.

    `framed` is for input: around a message stands what the template of the model adds. What a model writes
    is counted without it.
    """

    def __init__(self, model: str, counter: TokenCounter, *, framed: bool = True) -> None:
        self._model = model
        self._counter = counter
        self._left = MOST_TEXT
        self._template = encoding_for(model).template
        self._frame = self._template.message if framed else 0

    def item(self, item: Item) -> int:
        kind = type(item)
        if isinstance(item, Message):
            return self.message(item.content)
        if kind in _CALLS:
            return self._template.call + self._fields(item, _CALLS[kind])
        if kind in _RESULTS:
            return self._template.result + self._fields(item, _RESULTS[kind])
        if isinstance(item, ReasoningItem):
            # Of what is sealed a summary is but a part.
            readable = self.value(item.summary) + self.value(item.content)
            return max(readable, self._sealed(item.encrypted_content))
        if isinstance(item, Compaction):
            return self._sealed(item.encrypted_content)
        return 0 if isinstance(item, _ELSEWHERE) else self._json(_held(item))

    def message(self, content: str | list[ContentPart]) -> int:
        """A message of which nothing is sent costs nothing."""
        tokens = self.value(content)
        return tokens + self._frame if tokens else 0

    def value(self, value: object) -> int:
        """A text, a list of content parts, or any JSON; nothing for what is not there."""
        if not value:
            return 0
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list) and isinstance(value[0], Wire):
            return self._content(value)
        return self._json(value)

    def tools(self, tools: Iterable[Tool]) -> int:
        """Functions and custom tools as `penstock.tokens.schemas` renders them, all others by their JSON."""
        tokens = 0
        rendered: list[ChatTool] = []
        for name, tool in _flat(tools):
            plain = _plain(tool)
            size = len(_encoded(plain))
            if not isinstance(tool, FunctionTool | CustomTool):
                tokens += self._json(plain)
            elif self._may_count(size):
                rendered.append(_chat_tool(name, tool))
            else:
                tokens += size // BYTES_PER_TOKEN
        return tokens + self._counter.count_tools(self._model, rendered)

    def _fields(self, item: Item, names: Iterable[str]) -> int:
        return sum(self.value(getattr(item, name)) for name in names)

    def _content(self, parts: Iterable[ContentPart]) -> int:
        """Parts of text in a row are one text, as they are to a model."""
        tokens = 0
        texts: list[str] = []
        for part in parts:
            text = getattr(part, "text", getattr(part, "refusal", None))
            if isinstance(text, str):
                texts.append(text)
                continue
            tokens += self.value("".join(texts)) + self._part(part)
            texts = []
        return tokens + self.value("".join(texts))

    def _part(self, part: ContentPart) -> int:
        if isinstance(part, InputImage):
            found = _bytes_in(part.image_url or "", "image/png")
            return self._bytes(found) if found else image_tokens(self._model, b"")
        if isinstance(part, InputVideo):
            return self._file(part.video_url, "video/mp4")
        if isinstance(part, InputFile):
            return self.value(part.filename) + self._file(part.file_data or part.file_url or "", _BINARY)
        return self._json(_held(part))

    def _file(self, written: str, mime: str) -> int:
        found = _bytes_in(written, mime)
        if found:
            return self._bytes(found)
        # Of a file that is elsewhere nothing is known: it is taken for a page.
        return PER_PAGE if _is_elsewhere(written) else self.value(written)

    def _bytes(self, found: _Bytes) -> int:
        head = _decoded(found.base64[: HEAD * 4 // 3])
        if found.mime.startswith("image/") and not found.mime.startswith("image/svg"):
            return image_tokens(self._model, head)
        size = len(found.base64) * 3 // 4
        if self._may_count(size):
            return self._counter.count_part(self._model, DataPart(_decoded(found.base64), found.mime))
        if _is_text(head):
            return size // BYTES_PER_TOKEN
        return round(file_tokens(head) * size / len(head))

    def _text(self, text: str) -> int:
        if self._may_count(len(text)):
            return self._counter.count_text(self._model, text)
        return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)

    def _json(self, value: object) -> int:
        """The JSON that a model would read, and the bytes in it by the rules for bytes."""
        found: list[_Bytes] = []
        text = _encoded(_without_bytes(value, found))
        return self._text(text) + sum(map(self._bytes, found))

    def _sealed(self, sealed: str | UnsetType) -> int:
        return sealed_tokens(self._model, sealed) if sealed else 0

    def _may_count(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True


def _held(value: Wire) -> object:
    """What an unknown item or part holds, without what no model gets to see."""
    return {name: each for name, each in _plain(value).items() if name not in ("id", "status")}


def _plain(value: Wire) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_builtins(value)
    except RecursionError:  # what could just be read may be too deep here, on top of other calls
        return {}
    return plain


def _flat(tools: Iterable[Tool], namespace: str = "") -> Iterator[tuple[str, Tool]]:
    """Every tool with a name like the one that an upstream sees."""
    for tool in tools:
        own = getattr(tool, "name", "") or tool.type
        name = f"{namespace}__{own}" if namespace else own
        if isinstance(tool, NamespaceTool):
            yield from _flat(tool.tools, name)
        else:
            yield name, tool


def _chat_tool(name: str, tool: FunctionTool | CustomTool) -> ChatTool:
    if isinstance(tool, FunctionTool):
        return ChatTool(name, tool.description or "", tool.parameters or None)
    # An upstream without custom tools is shown the grammar in the description.
    grammar = (tool.format or {}).get("definition")
    texts = [tool.description or "", grammar if isinstance(grammar, str) else ""]
    return ChatTool(name, "\n\n".join(filter(None, texts)), {"properties": {"input": {"type": "string"}}})


def _is_elsewhere(written: str) -> bool:
    return not written or written.startswith(("http://", "https://"))


def _bytes_in(written: str, mime: str) -> _Bytes | None:
    """The bytes that a text is, if it is some: a data URL, or base64 where such a thing is expected."""
    if found := _DATA_URL.match(written):
        return _Bytes(found[1].lower() if "/" in found[1] else mime, written[found.end() :])
    # Of a long text the beginning tells: a word has a space behind it.
    if _is_elsewhere(written) or not _BASE64.fullmatch(written[:HEAD]):
        return None
    return _Bytes(mime, written)


def _without_bytes(value: object, found: list[_Bytes], depth: int = 0) -> object:
    """The same value with its base64 taken out, and put into `found`."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(name): _without_bytes(each, found, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_bytes(each, found, depth + 1) for each in value]
    if not isinstance(value, str) or (len(value) < _LEAST_BASE64 and not value.startswith("data:")):
        return value
    taken = _bytes_in(value, _BINARY)
    if taken is None:
        return value
    found.append(taken)
    return ""


def _encoded(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def _decoded(base64: str) -> bytes:
    """As much of it as can be read: it may be cut, broken, or of the kind for URLs."""
    text = "".join(base64.split()).replace("-", "+").replace("_", "/")
    try:
        return b64decode(text[: len(text) // 4 * 4])
    except (Error, ValueError):
        return b""


def _is_text(head: bytes) -> bool:
    """Is this UTF-8, if need be cut in the middle of a character?"""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 > 0
    return True
