"""Estimate the tokens of a request, and the usage of a turn if the upstream reports none (ask D1, ask D4).

`penstock.tokens` counts; this module knows which parts of a request and of an item reach a model. Everything
is counted and nothing raises: an item of an unknown type is counted by its JSON, without base64 data, which
no model reads as text. It runs on the event loop of all streams, so the work is bounded: the tokenizer reads
at most about fifty milliseconds' worth of text, and the rest is estimated by its bytes.
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
from penstock.protocol.tools import NamespaceTool, Tool
from penstock.protocol.wire import Wire, to_builtins
from penstock.stream.deltas import UsageDelta
from penstock.tokens.counter import TokenCounter, sealed_tokens
from penstock.tokens.encodings import encoding_for
from penstock.tokens.media import PER_PAGE, file_tokens, image_tokens
from penstock.tools.families import family_of

MAX_EXACT_TEXT = 1_000_000
"""Characters of a request and of an answer that are counted exactly: about 250,000 tokens."""

BYTES_PER_TOKEN = 4
"""For the rest of the text. English and code have four, scripts with three-byte characters about as many."""

HEAD = 262_144
"""Bytes of a large file that are read. They contain the size of an image."""

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
"""The fields of calls and results that a model reads. Tools that a search found are counted as tools."""

_COUNTED_ELSEWHERE = (items.ItemReference, items.AdditionalTools)
"""Items whose content is counted elsewhere: with the history or with the tools."""

_MAX_DEPTH = 32
_MIN_BASE64 = 256
"""A shorter text may be a word."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{60,}\r?\n)*[A-Za-z0-9+/_-]+={0,2}\s*", re.ASCII)
"""On one line, or in lines as in email. Prose does not match: it has spaces."""
_DATA_URL = re.compile(r"data:([^,;]{0,100})[^,]{0,200};base64,", re.IGNORECASE)
_BINARY = "application/octet-stream"


class _Data(Struct, frozen=True):
    mime: str
    base64: str


def count_input(request: CreateResponse, model: str, counter: TokenCounter) -> int:
    """Return the tokens of a request for a model, as in `POST /v1/responses/input_tokens`."""
    meter = _Meter(model, counter)
    tokens = encoding_for(model).template.reply
    if request.instructions:
        tokens += meter.message(request.instructions)
    if isinstance(request.input, str):
        tokens += meter.message(request.input)
    else:
        tokens += sum(meter.item(item) for item in request.input or ())
    if request.text and isinstance(format := request.text.format, JsonSchemaFormat):
        tokens += meter.value(format.schema)  # it is part of the prompt
    return tokens + meter.tools(declared_tools(request))


def estimate_usage(
    request: CreateResponse, model: str, output: Sequence[Item], counter: TokenCounter
) -> UsageDelta:
    """Estimate the usage of a turn whose upstream did not report it. `output` may be incomplete."""
    meter = _Meter(model, counter, framed=False)
    counts = [(item, meter.item(item)) for item in output]
    return UsageDelta(
        input_tokens=count_input(request, model, counter),
        output_tokens=sum(tokens for _, tokens in counts),
        reasoning_tokens=sum(tokens for item, tokens in counts if isinstance(item, ReasoningItem)),
        estimated=True,
    )


class _Meter:
    """Counts for one model, up to `MAX_EXACT_TEXT` exactly.

    `framed` is for input: it adds what the model's template adds around a message. Output is counted without
    it.
    """

    def __init__(self, model: str, counter: TokenCounter, *, framed: bool = True) -> None:
        self._model = model
        self._counter = counter
        self._exact_left = MAX_EXACT_TEXT
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
            # A summary is shorter than the encrypted reasoning.
            readable = self.value(item.summary) + self.value(item.content)
            return max(readable, self._sealed(item.encrypted_content))
        if isinstance(item, Compaction):
            return self._sealed(item.encrypted_content)
        return 0 if isinstance(item, _COUNTED_ELSEWHERE) else self._json(_visible_fields(item))

    def message(self, content: str | list[ContentPart]) -> int:
        """Count a message. One of which nothing is sent counts 0."""
        tokens = self.value(content)
        return tokens + self._frame if tokens else 0

    def value(self, value: object) -> int:
        """Count a text, a list of content parts, or any JSON; 0 if there is no value."""
        if not value:
            return 0
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list) and isinstance(value[0], Wire):
            return self._content(value)
        return self._json(value)

    def tools(self, tools: Iterable[Tool]) -> int:
        """Count tools that the client runs as `penstock.tokens.schemas` renders them, others as JSON."""
        tokens = 0
        rendered: list[ChatTool] = []
        for name, tool in _flat(tools):
            plain = _plain(tool)
            size = len(_encoded(plain))
            family = family_of(tool)
            if family is None:
                tokens += self._json(plain)
            elif self._reserve(size):
                function = family.declare(tool)
                rendered.append(ChatTool(name, function.description, function.parameters))
            else:
                tokens += size // BYTES_PER_TOKEN
        return tokens + self._counter.count_tools(self._model, rendered)

    def _fields(self, item: Item, names: Iterable[str]) -> int:
        return sum(self.value(getattr(item, name)) for name in names)

    def _content(self, parts: Iterable[ContentPart]) -> int:
        """Count content parts. Consecutive text parts are one text, as for a model."""
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
            found = _data_in(part.image_url or "", "image/png")
            return self._data(found) if found else image_tokens(self._model, b"")
        if isinstance(part, InputVideo):
            return self._file(part.video_url, "video/mp4")
        if isinstance(part, InputFile):
            return self.value(part.filename) + self._file(part.file_data or part.file_url or "", _BINARY)
        return self._json(_visible_fields(part))

    def _file(self, text: str, mime: str) -> int:
        found = _data_in(text, mime)
        if found:
            return self._data(found)
        # Nothing is known about a remote file: count one page.
        return PER_PAGE if _is_remote(text) else self.value(text)

    def _data(self, found: _Data) -> int:
        head = _decoded(found.base64[: HEAD * 4 // 3])
        if found.mime.startswith("image/") and not found.mime.startswith("image/svg"):
            return image_tokens(self._model, head)
        size = len(found.base64) * 3 // 4
        if self._reserve(size):
            return self._counter.count_part(self._model, DataPart(_decoded(found.base64), found.mime))
        if _is_text(head):
            return size // BYTES_PER_TOKEN
        return round(file_tokens(head) * size / len(head))

    def _text(self, text: str) -> int:
        if self._reserve(len(text)):
            return self._counter.count_text(self._model, text)
        return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)

    def _json(self, value: object) -> int:
        """Count the JSON that a model would read, with base64 data by the rules for files."""
        found: list[_Data] = []
        text = _encoded(_without_data(value, found))
        return self._text(text) + sum(map(self._data, found))

    def _sealed(self, sealed: str | UnsetType) -> int:
        return sealed_tokens(self._model, sealed) if sealed else 0

    def _reserve(self, size: int) -> bool:
        if size > self._exact_left:
            return False
        self._exact_left -= size
        return True


def _visible_fields(value: Wire) -> object:
    """Return the fields of an unknown item or part that a model may see."""
    return {name: each for name, each in _plain(value).items() if name not in ("id", "status")}


def _plain(value: Wire) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_builtins(value)
    except RecursionError:  # deep JSON that could be parsed may be too deep for the current stack
        return {}
    return plain


def _flat(tools: Iterable[Tool], namespace: str = "") -> Iterator[tuple[str, Tool]]:
    """Yield every tool with a name like the one that an upstream gets."""
    for tool in tools:
        own = getattr(tool, "name", "") or tool.type
        name = f"{namespace}__{own}" if namespace else own
        if isinstance(tool, NamespaceTool):
            yield from _flat(tool.tools, name)
        else:
            yield name, tool


def _is_remote(text: str) -> bool:
    return not text or text.startswith(("http://", "https://"))


def _data_in(text: str, mime: str) -> _Data | None:
    """Return the data in a text, if it is a data URL or bare base64."""
    if found := _DATA_URL.match(text):
        return _Data(found[1].lower() if "/" in found[1] else mime, text[found.end() :])
    # The beginning of a long text is enough: prose has spaces.
    if _is_remote(text) or not _BASE64.fullmatch(text[:HEAD]):
        return None
    return _Data(mime, text)


def _without_data(value: object, found: list[_Data], depth: int = 0) -> object:
    """Return the value without its base64 data, which is added to `found`."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(name): _without_data(each, found, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_data(each, found, depth + 1) for each in value]
    if not isinstance(value, str) or (len(value) < _MIN_BASE64 and not value.startswith("data:")):
        return value
    data = _data_in(value, _BINARY)
    if data is None:
        return value
    found.append(data)
    return ""


def _encoded(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def _decoded(base64: str) -> bytes:
    """Decode as much as possible: the base64 may be truncated, invalid or URL-safe."""
    text = "".join(base64.split()).replace("-", "+").replace("_", "/")
    try:
        return b64decode(text[: len(text) // 4 * 4])
    except (Error, ValueError):
        return b""


def _is_text(head: bytes) -> bool:
    """Return whether this is UTF-8, possibly cut in the middle of a character."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 > 0
    return True
