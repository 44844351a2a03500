"""Expand compactions that clients send back: each is replaced by the summary sealed in it (ask G4)."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.envelope import unseal
from penstock.gateway.history.sealing import Sealer
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Compaction, Item, Message
from penstock.protocol.request import CreateResponse

TRIGGER = "compaction_trigger"
"""The type of an item at the end of an input, with which Codex requests a compaction."""

FRAME = """\
The conversation before this message was replaced by a summary, to save room. Continue from it as if you \
remembered all of it.

<summary>
{summary}
</summary>"""


class Summary(Struct, frozen=True):
    """The content of our own compaction items."""

    summary: str
    model: str = ""
    created_at: int = 0


def wants_compaction(request: CreateResponse) -> bool:
    """Return whether the input ends with a trigger."""
    return isinstance(request.input, list) and bool(request.input) and request.input[-1].type == TRIGGER


def expand(
    request: CreateResponse, sealer: Sealer, tenant: str, before: int = 0
) -> tuple[CreateResponse, list[Diagnostic]]:
    """Return the request with each of our own compactions replaced by a message with its summary.

    An upstream's compaction is passed on to the dialect, which knows which upstream it can be sent back to.
    A compaction that cannot be read here is left out, even if another server created it (ask K1). A trigger
    that is not the last item was answered earlier and is dropped. Among the first `before` items, which are
    from earlier turns, one of our compactions also replaces the items before it.
    """
    if not isinstance(request.input, list) or not any(_concerns(item) for item in request.input):
        return request, []
    items: list[Item] = []
    unreadable = 0
    for place, item in enumerate(request.input, start=1):
        if isinstance(item, Compaction) and unseal(item.encrypted_content) is None:
            summary = opened(sealer, tenant, item)
            if summary is None:
                unreadable += 1
            else:
                items = [each for each in items if _instructs(each)] if place <= before else items
                items.append(_framed(item, summary))
        elif item.type != TRIGGER or place == len(request.input):
            items.append(item)
    return replace(request, input=items), _diagnostics(unreadable)


def _instructs(item: Item) -> bool:
    return isinstance(item, Message) and item.role in ("system", "developer")


def _concerns(item: Item) -> bool:
    return isinstance(item, Compaction) or item.type == TRIGGER


def opened(sealer: Sealer, tenant: str, item: Compaction) -> Summary | None:
    """Return the content of a compaction; None if it is not ours, or not this tenant's."""
    data = sealer.open(tenant, item.encrypted_content)
    try:
        return None if data is None else msgspec.json.decode(data, type=Summary)
    except msgspec.MsgspecError:
        return None  # sealed by us, but not a summary


def _framed(item: Compaction, summary: Summary) -> Message:
    return Message(id=item.id, role="user", content=FRAME.format(summary=summary.summary))


def _diagnostics(unreadable: int) -> list[Diagnostic]:
    if not unreadable:
        return []
    message = "a compaction that this gateway cannot read was left out"
    return [Diagnostic(code="compaction_unreadable", message=message, count=unreadable)]
