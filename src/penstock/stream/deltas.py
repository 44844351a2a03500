"""The inner vocabulary: what an upstream said, in words that no vendor owns.

A dialect reads its upstream's stream into these values, and `ResponseStreamStateMachine.apply` takes them.
This file is the whole list; read it and you know everything that can happen in a turn.

Blocks. `block=None` means the current block: the one the last delta of that kind went to, which closes when
another kind begins. A dialect whose upstream keys its blocks gives the key, and such a block stays open,
whatever comes between, until its `BlockEnd` or the end of the response.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from penstock.protocol.content import Annotation, JsonObject, LogProb
from penstock.protocol.items import Item

Key = str | int
"""How an upstream tells its blocks or calls apart: an index, an id. Opaque, compared and never counted."""


class BlockKind(StrEnum):
    """Text and refusals make messages, the other one reasoning items."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"


class FinishReason(StrEnum):
    """Why the model stopped, weakest first: a stronger reason replaces a weaker one (decision 6)."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    PAUSE = "pause"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


class BlockStart(Struct, frozen=True):
    """A keyed block begins. Nothing is announced until it has content (invariant 13)."""

    block: Key
    kind: BlockKind
    phase: str | None = None


class BlockEnd(Struct, frozen=True):
    """A keyed block is over. Without a kind, every open block under that key is."""

    block: Key
    kind: BlockKind | None = None


class TextDelta(Struct, frozen=True):
    text: str
    block: Key | None = None
    logprobs: list[LogProb] | None = None


class RefusalDelta(Struct, frozen=True):
    text: str
    block: Key | None = None


class ReasoningDelta(Struct, frozen=True):
    """Raw reasoning: the content of a reasoning item."""

    text: str
    block: Key | None = None


class SummaryDelta(Struct, frozen=True):
    """A summary of the reasoning. Another `part` than before begins a new summary part."""

    text: str
    part: Key = 0
    block: Key | None = None


class AnnotationDelta(Struct, frozen=True):
    """A citation in the text. One that comes before its text waits for it (quirk C31)."""

    annotation: Annotation
    block: Key | None = None


class OpaqueReasoning(Struct, frozen=True):
    """Signed or encrypted reasoning, to be given back unread on the next turn.

    With `block`, or after reasoning, it belongs to that reasoning item. Else it becomes an item of its own,
    at once: data that belongs to a call (`call` is that call's key) is sent before the call, so the item
    stands directly before it.
    """

    data: str
    block: Key | None = None
    call: Key | None = None


class ToolCallDelta(Struct, frozen=True):
    """A piece of a tool call: any field may be missing, repeated or late. See `calls/assembler.py`.

    - `key`: the upstream's index for the call. `id`: the upstream's call id. "" counts as absent.
    - `type`: "custom" when `arguments` is a custom tool's raw text and not JSON.
    - `arguments`: a fragment; an object is the whole of them.
    - `whole`: the call ends here. `arguments`, if given, is then all of them and not a fragment.
    """

    key: Key | None = None
    id: str | None = None
    name: str | None = None
    namespace: str | None = None
    type: str | None = None
    arguments: str | JsonObject | None = None
    whole: bool = False


class ItemDelta(Struct, frozen=True):
    """An item that the vendor made and runs itself, such as a web search: announced, or done."""

    key: Key
    item: Item
    done: bool


class EventDelta(Struct, frozen=True):
    """An event of such an item (`key`), or one that stands alone."""

    type: str
    fields: JsonObject
    key: Key | None = None


class UsageDelta(Struct, frozen=True):
    """Token counts so far. None says nothing, and a zero never takes back a count (quirk C6)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False


class UpstreamInfo(Struct, frozen=True):
    """What the upstream says of itself: which model really answered, at which tier."""

    id: str | None = None
    model: str | None = None
    service_tier: str | None = None


class DiagnosticDelta(Struct, frozen=True):
    """The dialect had to drop, degrade or repair something. `code` is one of its own."""

    code: str
    message: str


class FinishDelta(Struct, frozen=True):
    """The model stopped. The stream is not over: usage, or more, may follow."""

    reason: FinishReason


class ErrorDelta(Struct, frozen=True):
    """The upstream failed."""

    code: str
    message: str
    type: str = "server_error"
    param: str | None = None
    retry_after: float | None = None
    """Seconds to wait, where the upstream said so."""


Delta = (
    BlockStart
    | BlockEnd
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | SummaryDelta
    | AnnotationDelta
    | OpaqueReasoning
    | ToolCallDelta
    | ItemDelta
    | EventDelta
    | UsageDelta
    | UpstreamInfo
    | DiagnosticDelta
    | FinishDelta
    | ErrorDelta
)
