"""How many tokens a text, a part, a message or a whole conversation is, without asking anybody.

What is counted is what `penstock.parts.messages` sends: parts in a row of text are one text, what is not for
the model is nothing, thinking counts where it is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct

from penstock.dialects.envelope import unseal
from penstock.dialects.families import family_of
from penstock.parts.content import NOTHING, SYSTEM, TOOL_FAILED, content_of, is_for_model
from penstock.parts.exchanges import without_repeats
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.reasoning import returned_reasoning
from penstock.protocol.content import ContentPart, InputText
from penstock.protocol.items import ReasoningItem
from penstock.stream.diagnostics import Diagnostics
from penstock.tokens.cache import CountCache, key_of
from penstock.tokens.calibration import Calibration
from penstock.tokens.encodings import Encoding, encoding_for
from penstock.tokens.media import file_tokens, image_tokens
from penstock.tokens.schemas import render_tools
from penstock.tokens.tokenizer import count, tokenizer

_SHORT = 64
"""A text of so many characters is counted faster than it is looked up."""


class Estimate(Struct, frozen=True):
    """What a conversation costs as input.

    `exact` says that the tokenizer is the model's own and that the conversation is plain text, which OpenAI
    documents to the token. `raw` is the count before anything learned: give the estimate to `learn`.
    """

    tokens: int
    exact: bool
    raw: float = 0.0


class TokenCounter:
    """Counts, remembers counts, and learns from real usage. It may be shared by threads, and never fails.

    `cache_size` is the number of texts whose counts are kept, not the texts.
    """

    def __init__(self, cache_size: int = 20_000) -> None:
        self._cache = CountCache(cache_size)
        self._calibration = Calibration()

    def count_text(self, model: str, text: str) -> int:
        return self._real(model, self._text(encoding_for(model), text))

    def count_part(self, model: str, part: MessagePart) -> int:
        """A part as it stands in a user's message, or in the assistant's for what only it has."""
        return self._real(model, self._part(model, part))

    def count_message(self, model: str, message: ChatMessage) -> int:
        """A message with what its template adds: nothing, for one of which nothing is sent."""
        return self._real(model, self._message(model, message))

    def count_tools(self, model: str, tools: Iterable[ChatTool]) -> int:
        return self._real(model, self._tools(model, tools))

    def count_conversation(
        self,
        model: str,
        messages: Sequence[ChatMessage],
        tools: Sequence[ChatTool] = (),
        system_prompt: str = "",
    ) -> Estimate:
        """The whole input of a request. With history that the endpoint has, give that too: it is charged."""
        encoding = encoding_for(model)
        sent = without_repeats(messages)
        raw = sum(self._message(model, message) for message in sent) + encoding.template.reply
        if system_prompt:
            raw += self._text(encoding, system_prompt) + encoding.template.message
        raw += self._tools(model, tools)
        exact = _is_exact(encoding) and not tools and all(map(_is_plain, messages))
        # What a template adds to tools or images was learned from those; plain text has none of it.
        real = raw if exact else self._calibration.line(model).at(raw)
        return Estimate(round(real), exact, raw)

    def learn(self, model: str, estimate: Estimate, real: int) -> None:
        """Tell what a turn really took: the `input_tokens` of its usage, cached ones included.

        Figures that cannot be are left out, so this may be called with whatever came.
        """
        if not estimate.exact:
            exact = _is_exact(encoding_for(model))
            self._calibration.learn(model, estimate.raw, real, exact=exact)

    def _real(self, model: str, raw: float) -> int:
        """A count by itself: the factor that was learned holds, what is added to a whole request does not."""
        if not raw:
            return 0
        return max(round(raw * self._calibration.line(model).factor), 1)

    def _text(self, encoding: Encoding, text: str) -> float:
        if len(text) <= _SHORT:
            return count(encoding.name, text) * encoding.factor
        tokens = self._cache.get(key_of(encoding.name, text), lambda: count(encoding.name, text))
        return tokens * encoding.factor

    def _part(self, model: str, part: MessagePart) -> float:
        encoding = encoding_for(model)
        if isinstance(part, TextPart):
            return self._text(encoding, part.value) if is_for_model(part) else 0
        if isinstance(part, DataPart):
            return self._data(model, part)
        if isinstance(part, ToolCallPart):
            arguments = self._text(encoding, _json(part.input))
            return self._text(encoding, part.name) + arguments + encoding.template.call
        if isinstance(part, ToolResultPart):
            return self._result(model, part)
        if isinstance(part, ThinkingPart):
            return self._thoughts(model, [part])
        return 0

    def _data(self, model: str, part: DataPart) -> float:
        """Images and files by their rules; whatever reads as UTF-8 is counted as the text it is."""
        family, slash, _ = part.mime.strip().lower().partition("/")
        if not slash or not part.data or not is_for_model(part):
            return 0
        if family == "image" and not part.mime.lower().startswith("image/svg"):
            return image_tokens(model, part.data)
        encoding = encoding_for(model)
        # The count of a file is kept by its bytes: to decode it again would cost more than the look-up.
        key = key_of(f"{encoding.name} file", part.data)
        tokens = self._cache.get(key, lambda: _text_tokens(encoding.name, part.data))
        return tokens * encoding.factor if tokens >= 0 else file_tokens(part.data)

    def _result(self, model: str, part: ToolResultPart) -> float:
        encoding = encoding_for(model)
        counts = [self._part(model, each) for each in part.content if isinstance(each, TextPart | DataPart)]
        if part.is_error:
            counts.append(self._text(encoding, TOOL_FAILED))
        lines = [each for each in counts if each]
        content = sum(lines) + len(lines) - 1 if lines else self._text(encoding, NOTHING)
        return content + encoding.template.result

    def _thoughts(self, model: str, parts: Sequence[MessagePart]) -> float:
        encoding = encoding_for(model)
        items = (item for items in returned_reasoning(parts, model).items.values() for item in items)
        return sum(max(self._readable(encoding, item), self._sealed(model, item)) for item in items)

    def _readable(self, encoding: Encoding, item: ReasoningItem) -> float:
        parts = [*item.summary, *(item.content if item.content is not UNSET else ())]
        return sum(self._text(encoding, _text_of(part)) for part in parts)

    def _sealed(self, model: str, item: ReasoningItem) -> float:
        """Usually more than what can be read of the same: a summary is less than what it sums up."""
        sealed = item.encrypted_content
        if sealed is UNSET:
            return 0
        return self._cache.get(key_of(f"{model} sealed", sealed), lambda: sealed_tokens(model, sealed))

    def _message(self, model: str, message: ChatMessage) -> float:
        """A message is split where tools were called; what is left of it is the template's message."""
        encoding = encoding_for(model)
        texts: list[str] = []
        content = beside = 0.0
        for part in message.content:
            if isinstance(part, TextPart):
                texts += [part.value] if is_for_model(part) else []
                continue
            content += self._text(encoding, "".join(texts))
            texts = []
            if isinstance(part, DataPart):
                content += self._placed(model, message.role, part)
            elif not isinstance(part, ThinkingPart):
                beside += self._part(model, part)
        content += self._text(encoding, "".join(texts))
        if message.role == Role.ASSISTANT and any(isinstance(part, ThinkingPart) for part in message.content):
            beside += self._thoughts(model, message.content)
        return content + beside + (encoding.template.message if content else 0)

    def _placed(self, model: str, role: int, part: DataPart) -> float:
        """Data where it stands: of the assistant and the system only text is sent, and notes for the rest."""
        if role not in (Role.ASSISTANT, Role.SYSTEM) or not is_for_model(part):
            return self._data(model, part)
        note = content_of(part, SYSTEM, Diagnostics())
        return self._text(encoding_for(model), note.text) if isinstance(note, InputText) else 0

    def _tools(self, model: str, tools: Iterable[ChatTool]) -> float:
        return self._text(encoding_for(model), render_tools(tools))


def _is_exact(encoding: Encoding) -> bool:
    return encoding.exact and tokenizer(encoding.name) is not None


def _is_plain(message: ChatMessage) -> bool:
    return all(isinstance(part, TextPart) for part in message.content)


def _text_tokens(encoding: str, data: bytes) -> int:
    """The tokens of a file that is text, -1 for one that is not."""
    try:
        return count(encoding, data.decode())
    except UnicodeDecodeError:
        return -1


def _text_of(part: ContentPart) -> str:
    text = getattr(part, "text", "")
    return text if isinstance(text, str) else ""


def _json(value: object) -> str:
    """Arguments as they are sent; what JSON cannot say is counted by how it looks."""
    try:
        return msgspec.json.encode(dict(value) if isinstance(value, Mapping) else value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return ascii(value)
    except RecursionError:
        return ""


_GPT_HEAD, _GPT_CHARACTERS = 690, 8.1
_CHARACTERS = 6
"""Recorded: at OpenAI 1,060, 1,188 and 3,172 characters were 46, 61 and 306 tokens when they were sent back,
which is one token for 8 characters behind a head of some 690. At xAI 312 to 520 characters were 59 to 84."""


def sealed_tokens(model: str, sealed: str) -> int:
    """What reasoning costs that only its maker can read: an estimate, from how long it is."""
    length = _sealed_length(sealed)
    if family_of(model) == "gpt":
        return max(round((length - _GPT_HEAD) / _GPT_CHARACTERS), 0)
    return round(length / _CHARACTERS)


def _sealed_length(sealed: str) -> int:
    """Our gateway puts what the maker wrote into an envelope, which never reaches the model."""
    envelope = unseal(sealed)
    if envelope is None:
        return len(sealed)
    payload = envelope.payload
    return len(payload) if isinstance(payload, str) else len(msgspec.json.encode(payload))
