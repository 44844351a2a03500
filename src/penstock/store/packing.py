"""Packs events and traces into blobs: a row for each would cost more than its data.

A log repeats the same names, so it is compressed. The lowest compression level saves nine tenths of it, at
half a microsecond per event.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from msgspec import msgpack
from msgspec.structs import replace

from penstock.store.records import LoggedEvent, StoredItem, Trace
from penstock.store.turn_buffer import UnwrittenLog

ROW_BYTES = 64 * 1024
"""Approximate bytes of events in a row before packing. Small rows let a reader proceed in small steps."""

LARGE = 1024 * 1024
"""Bytes. A larger value is compressed piece by piece, to avoid a complete copy of it."""

_PLAIN = b"\x00"
_COMPRESSED = b"\x01"
"""The first byte of a blob. No JSON document begins with either."""
_COMPRESS_FROM = 256
_LEVEL = 1

_encoder = msgpack.Encoder()
_events = msgpack.Decoder(list[LoggedEvent])
_traces = msgpack.Decoder(list[Trace])
_recent = msgpack.Decoder(list[UnwrittenLog])


def pack_events(events: Sequence[LoggedEvent]) -> bytes:
    if len(events) == 1 and len(events[0].data) > LARGE:
        return _pack_large_event(events[0])
    return _pack(_encoder.encode(events))


def _pack_large_event(event: LoggedEvent) -> bytes:
    """Pack an event in the same format, without the copy of its data that the encoder would make."""
    head = _encoder.encode([replace(event, data=b"")]).removesuffix(_NO_BYTES)
    return _compress(head, _MANY_BYTES + len(event.data).to_bytes(4, "big"), event.data)


_NO_BYTES, _MANY_BYTES = b"\xc4\x00", b"\xc6"
"""How MessagePack begins a byte string: empty with a length of one byte, and with a length of four bytes."""


def unpack_events(blob: bytes) -> list[LoggedEvent]:
    return _events.decode(_unpack(blob))


def pack_traces(traces: Sequence[Trace]) -> bytes:
    return _pack(_encoder.encode(traces))


def unpack_traces(blob: bytes) -> list[Trace]:
    return _traces.decode(_unpack(blob))


def pack_recent(logs: Sequence[UnwrittenLog]) -> bytes:
    return _pack(_encoder.encode(logs))


def unpack_recent(blob: bytes) -> list[UnwrittenLog]:
    return _recent.decode(_unpack(blob))


def in_rows(events: Sequence[LoggedEvent]) -> Iterator[Sequence[LoggedEvent]]:
    """Split events into groups, one for each row."""
    begin = size = 0
    for position, event in enumerate(events):
        if size and size + len(event.data) > ROW_BYTES:
            yield events[begin:position]
            begin, size = position, 0
        size += len(event.data)
    if begin < len(events):
        yield events[begin:]


def pack_document(data: bytes) -> bytes:
    """Return a JSON document as it is stored: unchanged, or compressed if it is large."""
    return data if len(data) <= LARGE else _compress(data)


def unpack_document(blob: bytes) -> bytes:
    return zlib.decompress(memoryview(blob)[1:]) if blob[:1] == _COMPRESSED else blob


def item_of(id: str, blob: bytes) -> StoredItem:
    """Return an item from a row of the file."""
    return StoredItem(id, unpack_document(blob))


def _compress(*parts: bytes) -> bytes:
    compressor, packed = zlib.compressobj(_LEVEL), bytearray(_COMPRESSED)
    for part in parts:
        packed += compressor.compress(part)
    packed += compressor.flush()
    return bytes(packed)


def _pack(plain: bytes) -> bytes:
    if len(plain) < _COMPRESS_FROM:
        return _PLAIN + plain
    return _COMPRESSED + zlib.compress(plain, _LEVEL)


def _unpack(blob: bytes) -> bytes:
    return zlib.decompress(memoryview(blob)[1:]) if blob[:1] == _COMPRESSED else blob[1:]
