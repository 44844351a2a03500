"""What is left of a turn whose process died: a failed response, with the items that were finished (G8)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from penstock.protocol.errors import ResponseError
from penstock.store.store import Closed, LoggedEvent, StoredItem

CODE = "gateway_restarted"
_MESSAGE = "the gateway was stopped before the response was whole; what had been finished is kept"
_DONE = "response.output_item.done"


class _Done(Struct):
    type: str
    item: Raw
    output_index: int = 0


class _Named(Struct):
    id: str = ""


_read_done = msgspec.json.Decoder(_Done)
_read_name = msgspec.json.Decoder(_Named)
_read_fields = msgspec.json.Decoder(dict[str, Raw])


def interrupted(id: str, response: bytes, events: Iterable[LoggedEvent]) -> Closed:
    """The end of a turn that did not see it. Items keep the bytes they were sent with."""
    output = [item for _, item in sorted(_finished(events).items())]
    fields = _fields_of(id, response)
    fields["status"] = Raw(b'"failed"')
    fields["error"] = Raw(msgspec.json.encode(ResponseError(code=CODE, message=_MESSAGE)))
    fields["output"] = Raw(b"[" + b",".join(output) + b"]")
    items = ((_name_of(item), item) for item in output)
    return Closed(
        status="failed",
        response=msgspec.json.encode(fields),
        output=tuple(StoredItem(name, item) for name, item in items if name),
    )


def last_event(end: Closed, sequence: int, time: float) -> LoggedEvent:
    """So that somebody who reads the log to its end is told that it is the end, as in any stream."""
    data = b'{"type":"response.failed","sequence_number":%d,"response":%s}' % (sequence, end.response)
    return LoggedEvent(sequence, time, data)


def first_event(id: str, response: bytes, time: float) -> LoggedEvent:
    """For a turn that died before its log was written: whoever asked for it was told this much."""
    told = msgspec.json.encode(_fields_of(id, response))
    return LoggedEvent(0, time, b'{"type":"response.created","sequence_number":0,"response":%s}' % told)


def _finished(events: Iterable[LoggedEvent]) -> dict[int, bytes]:
    items: dict[int, bytes] = {}
    for event in events:
        if _DONE.encode() not in event.data:
            continue
        try:
            done = _read_done.decode(event.data)
        except msgspec.DecodeError:
            continue
        if done.type == _DONE:
            items[done.output_index] = bytes(done.item)
    return items


def _fields_of(id: str, response: bytes) -> dict[str, Raw]:
    try:
        return _read_fields.decode(response)
    except msgspec.DecodeError:
        return {"id": Raw(msgspec.json.encode(id)), "object": Raw(b'"response"')}


def _name_of(item: bytes) -> str:
    try:
        return _read_name.decode(item).id
    except msgspec.DecodeError:
        return ""
