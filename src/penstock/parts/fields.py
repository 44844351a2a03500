"""The fields of an event, also of one that is not what its type says and so was kept as it came."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from penstock.lenient import object_of, text_of
from penstock.protocol.events import Event
from penstock.protocol.wire import Wire, to_builtins

JSON = dict[str, Any]


def field(event: Event, name: str) -> Any:
    value = getattr(event, name, None)
    if value is None or value is UNSET:
        return (event.extra or {}).get(name)
    return value


def text_field(event: Event, name: str) -> str:
    return text_of(field(event, name))


def number_field(event: Event, name: str) -> int:
    value = field(event, name)
    return value if value.__class__ is int and value >= 0 else 0


def object_field(event: Event, name: str) -> JSON:
    value = field(event, name)
    return object_of(to_builtins(value) if isinstance(value, Wire) else value)


def place(event: Event) -> tuple[str, int]:
    """Which item an event says that it is about."""
    return text_field(event, "item_id"), number_field(event, "output_index")
