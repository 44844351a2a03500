"""Packing: large values are compressed piece by piece, and unpacked unchanged."""

from __future__ import annotations

import pytest

from penstock.store.packing import (
    LARGE,
    item_of,
    pack_document,
    pack_events,
    unpack_document,
    unpack_events,
)
from penstock.store.records import LoggedEvent, StoredItem

SIZES = [0, 1, LARGE, LARGE + 1, 3 * LARGE]


def document(size: int) -> bytes:
    return b'{"text":"' + b"0123456789abcdef" * (size // 16) + b'"}'


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sequence", [0, 127, 128, 70_000])
def test_an_event_of_any_size_is_unpacked_unchanged(size: int, sequence: int) -> None:
    event = LoggedEvent(sequence, 1.5, document(size))
    assert unpack_events(pack_events([event])) == [event]


@pytest.mark.parametrize("size", SIZES)
def test_a_document_of_any_size_is_unpacked_unchanged(size: int) -> None:
    assert unpack_document(pack_document(document(size))) == document(size)
    assert item_of("msg_1", pack_document(document(size))) == StoredItem("msg_1", document(size))


def test_only_large_documents_are_compressed() -> None:
    assert pack_document(document(1000)) == document(1000)
    assert len(pack_document(document(3 * LARGE))) < LARGE
