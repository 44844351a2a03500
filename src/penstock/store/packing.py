"""Events and traces as blobs: a row for each of them would cost more than what is in it.

A log says the same names again and again, so it is compressed; the least effort takes off nine tenths of it,
for half a microsecond an event.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from msgspec import msgpack

from penstock.store.store import LoggedEvent, Trace

ROW_BYTES = 64 * 1024
"""About as much is in a row before it is packed, so that a reader takes small steps."""

_PLAIN = b"\x00"
_SMALLER = b"\x01"
_WORTH_IT = 256
_EFFORT = 1

_encoder = msgpack.Encoder()
_event_rows = msgpack.Decoder(list[tuple[int, float, bytes]])
_trace_rows = msgpack.Decoder(list[tuple[str, float, bytes, int]])


def pack_events(events: Sequence[LoggedEvent]) -> bytes:
    return _pack(_encoder.encode([(event.sequence, event.time, event.data) for event in events]))


def unpack_events(blob: bytes) -> list[LoggedEvent]:
    return [LoggedEvent(*row) for row in _event_rows.decode(_unpack(blob))]


def pack_traces(traces: Sequence[Trace]) -> bytes:
    return _pack(_encoder.encode([(trace.kind, trace.time, trace.data, trace.size) for trace in traces]))


def unpack_traces(blob: bytes) -> list[Trace]:
    return [Trace(*row) for row in _trace_rows.decode(_unpack(blob))]


def in_rows(events: Sequence[LoggedEvent]) -> Iterator[Sequence[LoggedEvent]]:
    """Events in portions, each for one row."""
    begin = size = 0
    for place, event in enumerate(events):
        if size and size + len(event.data) > ROW_BYTES:
            yield events[begin:place]
            begin, size = place, 0
        size += len(event.data)
    if begin < len(events):
        yield events[begin:]


def _pack(plain: bytes) -> bytes:
    if len(plain) < _WORTH_IT:
        return _PLAIN + plain
    return _SMALLER + zlib.compress(plain, _EFFORT)


def _unpack(blob: bytes) -> bytes:
    return zlib.decompress(blob[1:]) if blob[:1] == _SMALLER else blob[1:]
