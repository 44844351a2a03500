"""Count the tokens of a text, a part, a message or a whole conversation, offline.

Counts what `penstock.parts.messages` sends: consecutive text parts are one text, parts that are not for the
model do not count, and thinking counts only if it is sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct

from penstock.dialects.envelope import unseal
from penstock.dialects.model_families import family_of
from penstock.extras import EXTRAS
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

_MAX_UNCACHED = 64
"""Characters of a text that is faster to count than to look up."""


class Estimate(Struct, frozen=True):
    """The input tokens of a conversation.

    `exact`: the tokenizer is the model's own and the conversation is plain text, whose format OpenAI
    documents. `raw` is the count before calibration: pass the estimate to `learn`.
    """

    tokens: int
    exact: bool
    raw: float = 0.0


class TokenCounter:
    """Counts tokens, caches counts, and learns from real usage. Thread-safe; never raises.

    `cache_size` is the number of cached counts. The texts are not stored.
    """

    def __init__(self, cache_size: int = 20_000) -> None:
        self._cache = CountCache(cache_size)
        self._calibration = Calibration()

    def count_text(self, model: str, text: str) -> int:
        return self._calibrated(model, self._text(encoding_for(model), text))

    def count_part(self, model: str, part: MessagePart) -> int:
        """Count a part of a user's message, or of an assistant's message if only that can have it."""
        return self._calibrated(model, self._part(model, part))

    def count_message(self, model: str, message: ChatMessage) -> int:
        """Count a message and what the template adds. A message of which nothing is sent counts 0."""
        return self._calibrated(model, self._message(model, message))

    def count_tools(self, model: str, tools: Iterable[ChatTool]) -> int:
        return self._calibrated(model, self._tools(model, tools))

    def count_conversation(
        self,
        model: str,
        messages: Sequence[ChatMessage],
        tools: Sequence[ChatTool] = (),
        system_prompt: str = "",
    ) -> Estimate:
        """Estimate the input of a request. Include history that the endpoint stores: it is charged."""
        encoding = encoding_for(model)
        sent = without_repeats(messages)
        raw = sum(self._message(model, message) for message in sent) + encoding.template.reply
        if system_prompt:
            raw += self._text(encoding, system_prompt) + encoding.template.message
        raw += self._tools(model, tools)
        exact = _is_exact(encoding) and not tools and all(map(_is_plain, messages))
        # The overhead was learned from requests with tools or images; plain text does not have it.
        real = raw if exact else self._calibration.line(model).at(raw)
        return Estimate(round(real), exact, raw)

    def learn(self, model: str, estimate: Estimate, real: int) -> None:
        """Learn the real cost of a turn: the `input_tokens` of its usage, including cached ones.

        Implausible values are ignored, so any usage may be passed.
        """
        if not estimate.exact:
            exact = _is_exact(encoding_for(model))
            self._calibration.learn(model, estimate.raw, real, exact=exact)

    def _calibrated(self, model: str, raw: float) -> int:
        """Calibrate a single count: with the learned factor, without the overhead of a whole request."""
        if not raw:
            return 0
        return max(round(raw * self._calibration.line(model).factor), 1)

    def _text(self, encoding: Encoding, text: str) -> float:
        if len(text) <= _MAX_UNCACHED:
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
        """Count images and files by their rules, and anything that is valid UTF-8 as text."""
        family, slash, _ = part.mime.strip().lower().partition("/")
        if not slash or not part.data or not is_for_model(part):
            return 0
        if family == "image" and not part.mime.lower().startswith("image/svg"):
            return image_tokens(model, part.data)
        encoding = encoding_for(model)
        # Cached by the bytes: decoding a file again would cost more than the lookup.
        key = key_of(f"{encoding.name} file", part.data)
        tokens = self._cache.get(key, lambda: _text_tokens(encoding.name, part.data))
        return tokens * encoding.factor if tokens >= 0 else file_tokens(part.data)

    def _result(self, model: str, part: ToolResultPart) -> float:
        encoding = encoding_for(model)
        counts = [self._part(model, each) for each in part.content if isinstance(each, TextPart | DataPart)]
        if part.is_error:
            counts.append(self._text(encoding, TOOL_FAILED))
        nonempty = [each for each in counts if each]
        content = sum(nonempty) + len(nonempty) - 1 if nonempty else self._text(encoding, NOTHING)
        return content + encoding.template.result

    def _thoughts(self, model: str, parts: Sequence[MessagePart]) -> float:
        encoding = encoding_for(model)
        items = (item for items in returned_reasoning(parts, model).items.values() for item in items)
        return sum(max(self._readable(encoding, item), self._sealed(model, item)) for item in items)

    def _readable(self, encoding: Encoding, item: ReasoningItem) -> float:
        parts = [*item.summary, *(item.content if item.content is not UNSET else ())]
        return sum(self._text(encoding, _text_of(part)) for part in parts)

    def _sealed(self, model: str, item: ReasoningItem) -> float:
        """Estimate encrypted reasoning; usually more than its summary."""
        sealed = item.encrypted_content
        if sealed is UNSET:
            return 0
        return self._cache.get(key_of(f"{model} sealed", sealed), lambda: sealed_tokens(model, sealed))

    def _message(self, model: str, message: ChatMessage) -> float:
        """Count a message. Tool calls and results are sent separately, outside the template of a message."""
        encoding = encoding_for(model)
        texts: list[str] = []
        content = separate = 0.0
        for part in message.content:
            if isinstance(part, TextPart):
                texts += [part.value] if is_for_model(part) else []
                continue
            content += self._text(encoding, "".join(texts))
            texts = []
            if isinstance(part, DataPart):
                content += self._data_in_message(model, message.role, part)
            elif not isinstance(part, ThinkingPart):
                separate += self._part(model, part)
        content += self._text(encoding, "".join(texts))
        if message.role == Role.ASSISTANT and any(isinstance(part, ThinkingPart) for part in message.content):
            separate += self._thoughts(model, message.content)
        return content + separate + (encoding.template.message if content else 0)

    def _data_in_message(self, model: str, role: int, part: DataPart) -> float:
        """Count data in a message. Assistant and system messages have only text, and notes for other data."""
        if role not in (Role.ASSISTANT, Role.SYSTEM) or not is_for_model(part):
            return self._data(model, part)
        note = content_of(part, SYSTEM, Diagnostics())
        return self._text(encoding_for(model), note.text) if isinstance(note, InputText) else 0

    def _tools(self, model: str, tools: Iterable[ChatTool]) -> float:
        return self._text(encoding_for(model), render_tools(tools))


def why_estimated(model: str) -> str:
    """Return why the counts for a model are estimates, or "" if its own tokenizer counts the text."""
    encoding = encoding_for(model)
    if not encoding.exact:
        return "the count is an estimate: the tokenizer of this model is not available"
    if tokenizer(encoding.name) is not None:
        return ""
    extra = EXTRAS["tokens"]
    return f"the count is an estimate: {extra.missing}; to install it, run {extra.command}"


def _is_exact(encoding: Encoding) -> bool:
    return encoding.exact and tokenizer(encoding.name) is not None


def _is_plain(message: ChatMessage) -> bool:
    return all(isinstance(part, TextPart) for part in message.content)


def _text_tokens(encoding: str, data: bytes) -> int:
    """Return the tokens of a text file, or -1 if it is not text."""
    try:
        return count(encoding, data.decode())
    except UnicodeDecodeError:
        return -1


def _text_of(part: ContentPart) -> str:
    text = getattr(part, "text", "")
    return text if isinstance(text, str) else ""


def _json(value: object) -> str:
    """Return the arguments as JSON; if that is not possible, by their `repr`."""
    try:
        return msgspec.json.encode(dict(value) if isinstance(value, Mapping) else value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return ascii(value)
    except RecursionError:
        return ""


_GPT_HEADER, _GPT_CHARACTERS_PER_TOKEN = 690, 8.1
_CHARACTERS_PER_TOKEN = 6
"""From recordings of OpenAI: 1,060, 1,188 and 3,172 characters cost 46, 61 and 306 tokens when sent back,
which is one token for 8 characters after a header of about 690. Of xAI: 312 to 520 cost 59 to 84."""


def sealed_tokens(model: str, sealed: str) -> int:
    """Estimate the tokens of encrypted reasoning from its length."""
    length = _sealed_length(sealed)
    if family_of(model) == "gpt":
        return max(round((length - _GPT_HEADER) / _GPT_CHARACTERS_PER_TOKEN), 0)
    return round(length / _CHARACTERS_PER_TOKEN)


def _sealed_length(sealed: str) -> int:
    """Return the length without the gateway's envelope, which the model does not receive."""
    envelope = unseal(sealed)
    if envelope is None:
        return len(sealed)
    payload = envelope.payload
    return len(payload) if isinstance(payload, str) else len(msgspec.json.encode(payload))
