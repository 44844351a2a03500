"""Events and traces as blobs: a row for each of them would cost more than what is in it.

A log says the same names again and again, so it is compressed; the least effort takes off nine tenths of it,
for half a microsecond an event.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from msgspec import msgpack

from penstock.store.contract import LoggedEvent, StoredItem, Trace

ROW_BYTES = 64 * 1024
"""About as much is in a row before it is packed, so that a reader takes small steps."""

LARGE = 1024 * 1024
"""Bytes. A larger value is compressed piece by piece, so that no whole copy of it is made on the way."""

_PLAIN = b"\x00"
_SMALLER = b"\x01"
"""Neither can begin a JSON document."""
_WORTH_IT = 256
_EFFORT = 1

_encoder = msgpack.Encoder()
_event_rows = msgpack.Decoder(list[tuple[int, float, bytes]])
_trace_rows = msgpack.Decoder(list[tuple[str, float, bytes, int]])


def pack_events(events: Sequence[LoggedEvent]) -> bytes:
    if len(events) == 1 and len(events[0].data) > LARGE:
        return _pack_large_event(events[0])
    return _pack(_encoder.encode([(event.sequence, event.time, event.data) for event in events]))


def _pack_large_event(event: LoggedEvent) -> bytes:
    """The same row as for a small one, but for the copy of its data that an encoder would make."""
    head = _encoder.encode([(event.sequence, event.time, b"")]).removesuffix(_NO_BYTES)
    return _compress(head, _MANY_BYTES + len(event.data).to_bytes(4, "big"), event.data)


_NO_BYTES, _MANY_BYTES = b"\xc4\x00", b"\xc6"
"""How MessagePack begins a value of bytes: with one byte for its length, and with four."""


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


def pack_document(data: bytes) -> bytes:
    """A JSON document as it is kept: as it is, unless it is large."""
    return data if len(data) <= LARGE else _compress(data)


def unpack_document(blob: bytes) -> bytes:
    return zlib.decompress(memoryview(blob)[1:]) if blob[:1] == _SMALLER else blob


def item_of(id: str, blob: bytes) -> StoredItem:
    """An item as it is read from the file."""
    return StoredItem(id, unpack_document(blob))


def _compress(*parts: bytes) -> bytes:
    compressor, packed = zlib.compressobj(_EFFORT), bytearray(_SMALLER)
    for part in parts:
        packed += compressor.compress(part)
    packed += compressor.flush()
    return bytes(packed)


def _pack(plain: bytes) -> bytes:
    if len(plain) < _WORTH_IT:
        return _PLAIN + plain
    return _SMALLER + zlib.compress(plain, _EFFORT)


def _unpack(blob: bytes) -> bytes:
    return zlib.decompress(memoryview(blob)[1:]) if blob[:1] == _SMALLER else blob[1:]
