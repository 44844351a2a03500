"""Drop items that a client repeats although the response it continues already contains them (ask G9)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.items import CLIENT_CALLS, Item, Message, ReasoningItem
from penstock.protocol.wire import to_builtins
from penstock.store.reasoning_memory import item_text

Numbered = tuple[int, Item]
"""An item and its index in the request, for error messages."""

Mark = tuple[str, str] | None

_OUTPUT = "_output"


def without_repeats(before: Sequence[Item], given: list[Numbered]) -> list[Numbered]:
    """Return the new items. A known call is a repeat, however it is written now. A different output of it is
    new, and so is any other item with a known id and different content."""
    given = _after_full_history(before, given)
    known = {str(item.id): _content(item) for item in before if item.id}
    calls = {_mark(item): _content(item) for item in before if _mark(item) is not None}
    return [each for each in given if not _is_repeated(each[1], known, calls)]


def _is_repeated(item: Item, known: dict[str, object], calls: dict[Mark, object]) -> bool:
    content = _content(item)
    return calls.get(_mark(item)) == content or (bool(item.id) and known.get(str(item.id)) == content)


def latest_outputs(items: Sequence[Item]) -> list[Item]:
    """Return the items with one output per call: a later output replaces the first."""
    places: dict[Mark, int] = {}
    latest: list[Item] = []
    for item in items:
        mark = _mark(item) if item.type.endswith(_OUTPUT) else None
        if mark is not None and mark in places:
            latest[places[mark]] = item
            continue
        if mark is not None:
            places[mark] = len(latest)
        latest.append(item)
    return latest


def _after_full_history(before: Sequence[Item], given: list[Numbered]) -> list[Numbered]:
    """Drop the history of a client that sends all of it although it also references it."""
    history = [_content(item) for item in before if not isinstance(item, ReasoningItem)]
    count, places = 0, [place for place, (_, item) in enumerate(given) if not isinstance(item, ReasoningItem)]
    if not history or len(places) < len(history):
        return given
    while count < len(history) and _content(given[places[count]][1]) == history[count]:
        count += 1
    return given[places[count - 1] + 1 :] if count == len(history) else given


def _mark(item: Item) -> Mark:
    """Return what identifies a call or an output; None for other items."""
    call_id = getattr(item, "call_id", None)
    return (item.type, call_id) if isinstance(call_id, str) and call_id else None


def _content(item: Item) -> object:
    """Return the content of an item in a form that does not depend on how it is written."""
    if isinstance(item, Message):
        return item.type, item.role, item_text(item)
    if item.type in CLIENT_CALLS:
        return _mark(item)
    if item.type.endswith(_OUTPUT):
        return _mark(item), item_text(item)
    fields = to_builtins(item)
    return {name: value for name, value in fields.items() if name not in ("id", "status")}
