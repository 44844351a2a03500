"""Reads reasoning in Chat Completions. There is no standard; there are seven ways (quirk C24 to quirk C29).

Text is emitted once, as it arrives. Signatures and encrypted blocks are collected and sealed as one payload
when the reasoning ends: `settle` is called before anything that ends it. The payload has the vendor's own
field names, so rendering copies its fields into the assistant message unchanged. Plain text is part of the
payload only if the client asks for it (`envelope.seals_text`).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from penstock.dialects.envelope import sealed_reasoning, seals_text
from penstock.dialects.plan import Plan
from penstock.lenient import object_of, objects_of, text_of
from penstock.stream.deltas import Delta, Key, ReasoningDelta, SummaryDelta

PLAIN_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""Reasoning as plain text. Vendors fill several fields with the same text; the first with text is read
(quirk C25)."""

SUMMARY_FIELDS = ("cot_summary",)

DETAIL_FIELDS = ("reasoning_details", "thinking_blocks")
"""Reasoning as a list of typed pieces: OpenRouter and compatible vendors, and LiteLLM."""

OPAQUE_FIELDS = ("cot_id", "reasoning_opaque", "extra_content")
"""Fields of a delta that are sent back unchanged."""

REASONING_FIELDS = frozenset({*PLAIN_FIELDS, *SUMMARY_FIELDS, *DETAIL_FIELDS, *OPAQUE_FIELDS})

_TEXTS = ("text", "summary", "thinking")
_SECRETS = ("signature", "data")
_NOTHING = sha256()


class Reasoning:
    """Reads the reasoning of one answer."""

    __slots__ = (
        "_details",
        "_opaque",
        "_plain",
        "_plain_length",
        "_seals_details",
        "_seals_text",
        "_target",
        "_texts",
    )

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._seals_text = seals_text(plan.request)
        self._seals_details = self._seals_text or plan.target.quirks.reasoning_details
        """Whether lists without secrets are sealed as well: only a payload can send them back unchanged."""
        self._details: dict[str, list[_Detail]] = {}
        self._opaque: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        """The plain text to seal, by the vendor's name of its field."""
        self._plain = _NOTHING
        """The hash of the plain text so far."""
        self._plain_length = 0

    def read(self, delta: dict[str, Any]) -> list[Delta]:
        deltas = self._details_of(delta)
        field = next((name for name in PLAIN_FIELDS if text_of(delta.get(name))), "")
        plain = text_of(delta.get(field))
        plain_deltas = self.plain(plain, field) if plain else []
        if not deltas:
            deltas = plain_deltas
        elif not plain and self._repeats(deltas):
            deltas = []
        deltas += [SummaryDelta(text) for name in SUMMARY_FIELDS if (text := text_of(delta.get(name)))]
        for name in OPAQUE_FIELDS:
            if delta.get(name) and _is_opaque(delta[name]):
                self._opaque[name] = delta[name]
        return deltas

    def plain(self, text: str, field: str) -> list[Delta]:
        """Return the reasoning in a field with plain text."""
        if self._plain is _NOTHING:
            self._plain = sha256()
        self._plain.update(text.encode("utf-8", "surrogatepass"))
        self._plain_length += len(text)
        if self._seals_text:
            self.add_text(text, field)
        return [ReasoningDelta(text)]

    def add_text(self, text: str, field: str = PLAIN_FIELDS[0]) -> None:
        """Add text to seal. Reasoning from the content of the message has no field of its own."""
        if self._seals_text:
            self._texts.setdefault(field, []).append(text)

    def settle(self) -> list[Delta]:
        """Return the sealed payload collected so far: the reasoning that it belongs to has ended."""
        if not (self._details or self._opaque or self._texts):
            return []
        payload = dict(self._opaque)
        for name, details in self._details.items():
            if self._seals_details or any(detail.is_secret for detail in details):
                payload[name] = [detail.joined() for detail in details]
        if self._target.quirks.reasoning_field or payload.keys().isdisjoint(DETAIL_FIELDS):
            # Otherwise the text would be sealed twice.
            payload |= {name: "".join(texts) for name, texts in self._texts.items()}
        self._details, self._opaque, self._texts = {}, {}, {}
        return [sealed_reasoning(self._target, payload)] if payload else []

    def of_call(self, call: dict[str, Any], key: Key) -> list[Delta]:
        """Return the signature of a tool call: Gemini requires it back on the same call (ask C3)."""
        extra = call.get("extra_content")
        if not _is_opaque(extra):
            return []
        return [sealed_reasoning(self._target, {"extra_content": extra}, attached="call", call=key)]

    def _details_of(self, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for name in DETAIL_FIELDS:
            for piece in objects_of(delta.get(name)):
                collected = self._details.setdefault(name, [])
                if not (collected and collected[-1].continues_with(piece)):
                    collected.append(_Detail())
                collected[-1].add(piece)
                deltas += _text_of(piece)
            if deltas:
                break  # a second list repeats the first
        return deltas

    def _repeats(self, deltas: list[Delta]) -> bool:
        """Return whether this repeats all reasoning so far: some proxies send the whole list at the end."""
        text = "".join(each.text for each in deltas if isinstance(each, ReasoningDelta | SummaryDelta))
        if not len(text) == self._plain_length > 0:
            return False
        return sha256(text.encode("utf-8", "surrogatepass")).digest() == self._plain.digest()


class _Detail:
    """One piece of a list, joined from its deltas."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}

    @property
    def is_secret(self) -> bool:
        return any(text_of(self._fields.get(name)) for name in _SECRETS)

    def continues_with(self, piece: dict[str, Any]) -> bool:
        """Return whether `piece` continues this one: a secret ends it, and type, index and id must match."""
        return not self.is_secret and all(
            self._fields.get(name) is None or piece.get(name) in (None, self._fields[name])
            for name in ("type", "index", "id")
        )

    def add(self, piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
                self._fields[name] = ""  # keeps the order of the fields
            elif value is not None or name not in self._fields:
                self._fields[name] = value

    def joined(self) -> dict[str, Any]:
        return self._fields | {name: "".join(texts) for name, texts in self._texts.items()}


def _text_of(piece: dict[str, Any]) -> list[Delta]:
    if summary := text_of(piece.get("summary")):
        index = piece.get("index")
        return [SummaryDelta(summary, part=index if isinstance(index, int) else 0)]
    text = text_of(piece.get("text")) or text_of(piece.get("thinking"))
    return [ReasoningDelta(text)] if text else []


def _is_opaque(value: Any) -> bool:
    """Return whether to keep a value: a text or Google's signature. Other extra content has no later use."""
    if isinstance(value, str):
        return bool(value)
    return bool(text_of(object_of(object_of(value).get("google")).get("thought_signature")))
