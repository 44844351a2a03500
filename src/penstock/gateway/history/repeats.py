"""What a client sends again although it names the response that holds it (ask G9)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.items import CLIENT_CALLS, Item, Message, ReasoningItem
from penstock.protocol.wire import to_builtins
from penstock.store.reasoning_memory import item_text

Numbered = tuple[int, Item]
"""An item, and its place in the request: errors name it."""

Mark = tuple[str, str] | None

_OUTPUT = "_output"


def without_repeats(before: Sequence[Item], given: list[Numbered]) -> list[Numbered]:
    """What is new. A call that is known is known, however it is written now; another output of it is new, and
    so is anything else that has a known id and says something else."""
    given = _behind_the_whole(before, given)
    known = {str(item.id): _content(item) for item in before if item.id}
    calls = {_mark(item): _content(item) for item in before if _mark(item) is not None}
    return [each for each in given if not _is_repeated(each[1], known, calls)]


def _is_repeated(item: Item, known: dict[str, object], calls: dict[Mark, object]) -> bool:
    content = _content(item)
    return calls.get(_mark(item)) == content or (bool(item.id) and known.get(str(item.id)) == content)


def latest_outputs(items: Sequence[Item]) -> list[Item]:
    """A call has one output: a later one takes the place of the first."""
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


def _behind_the_whole(before: Sequence[Item], given: list[Numbered]) -> list[Numbered]:
    """A client that sends the whole history, and names it as well."""
    told = [_content(item) for item in before if not isinstance(item, ReasoningItem)]
    count, places = 0, [place for place, (_, item) in enumerate(given) if not isinstance(item, ReasoningItem)]
    if not told or len(places) < len(told):
        return given
    while count < len(told) and _content(given[places[count]][1]) == told[count]:
        count += 1
    return given[places[count - 1] + 1 :] if count == len(told) else given


def _mark(item: Item) -> Mark:
    """Tells calls and their outputs apart; other items have none."""
    call_id = getattr(item, "call_id", None)
    return (item.type, call_id) if isinstance(call_id, str) and call_id else None


def _content(item: Item) -> object:
    """What an item says, whichever way it is written."""
    if isinstance(item, Message):
        return item.type, item.role, item_text(item)
    if item.type in CLIENT_CALLS:
        return _mark(item)
    if item.type.endswith(_OUTPUT):
        return _mark(item), item_text(item)
    fields = to_builtins(item)
    return {name: value for name, value in fields.items() if name not in ("id", "status")}
