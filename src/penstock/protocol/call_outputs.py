"""Outputs of tool calls that do not say which call they belong to.

`call_id` is optional in the types of OpenAI's newer SDKs. The position decides where there is no doubt: all
outputs without an id that follow some calls belong to those of these calls that have no output, in order, if
there are as many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.protocol.items import (
    ApplyPatchCallOutput,
    CustomToolCallOutput,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    LocalShellCallOutput,
    ShellCallOutput,
)

_OUTPUTS = FunctionCallOutput | CustomToolCallOutput | ShellCallOutput | ApplyPatchCallOutput
_SUFFIX = "_output"


def lacks_call_id(item: Item) -> bool:
    return isinstance(item, _OUTPUTS) and not item.call_id


def with_call_ids(items: Sequence[Item], begin: int = 0) -> list[Item]:
    """Return the items with every call id that can be inferred.

    Raise `DecodeError` for the first output that could belong to several calls, or to none. `begin` is how
    many of the items are from earlier turns: those are not the client's to correct, and stay as they are.
    """
    found = _with_local_shell_ids(items)
    if not any(map(lacks_call_id, found)):
        return found
    answered = Counter(item.call_id for item in found if isinstance(item, _OUTPUTS) and item.call_id)
    calls: dict[str, list[str]] = {}
    outputs: dict[str, list[int]] = {}
    for place, item in enumerate(found):
        call_id = getattr(item, "call_id", None)
        if lacks_call_id(item):
            outputs.setdefault(item.type.removesuffix(_SUFFIX), []).append(place)
        elif isinstance(call_id, str) and not item.type.endswith(_SUFFIX):
            if outputs.get(item.type):
                _settle(found, calls.pop(item.type, []), outputs.pop(item.type), begin)
            if answered[call_id] > 0:
                answered[call_id] -= 1
            else:
                calls.setdefault(item.type, []).append(call_id)
    for kind, places in outputs.items():
        _settle(found, calls.get(kind, []), places, begin)
    return found


def _with_local_shell_ids(items: Sequence[Item]) -> list[Item]:
    """Return the items with the call id of each `local_shell_call_output` that names its call's item id."""
    calls = {item.id: item.call_id for item in items if isinstance(item, LocalShellCall) and item.id}
    return [
        replace(item, call_id=calls[item.id])
        if isinstance(item, LocalShellCallOutput) and not item.call_id and item.id in calls
        else item
        for item in items
    ]


def _settle(items: list[Item], calls: list[str], places: list[int], begin: int) -> None:
    if len(calls) == len(places):
        for call_id, place in zip(calls, places, strict=True):
            items[place] = replace(items[place], call_id=call_id)
    elif places[-1] >= begin:
        given = next(place for place in places if place >= begin)
        open_calls = "no call before it lacks" if not calls else f"{len(calls)} calls before it lack"
        message = f"is missing, and {open_calls} an output: set it to the `call_id` of its call"
        raise DecodeError(message, f"[{given - begin}].call_id").within("input")
