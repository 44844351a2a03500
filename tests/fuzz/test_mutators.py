"""Mutations depend on nothing but their `Random`, keep inputs small, and reach what code compares with."""

from __future__ import annotations

import json
from random import Random

import pytest
from fuzz.mutators import FORMATS, MOST_BYTES, Source, mutate
from hypothesis import given
from hypothesis import strategies as st

EXAMPLES = {
    "bytes": b"\x01\x02\x03",
    "lines": b"host: x\r\naccept: */*\r\n",
    "json": b'{"a":[1,{"b":"text"}],"c":null}',
    "json lines": b'{"a":1}\n{"b":[2]}\n',
    "sse": b'event: a\ndata: {"type":"a","n":1}\n\n: ping\n\ndata: [DONE]\n\n',
}


@given(st.sampled_from(sorted(FORMATS)), st.binary(max_size=60), st.binary(max_size=60), st.integers())
def test_any_input_can_be_changed_in_any_format(format: str, data: bytes, other: bytes, seed: int) -> None:
    assert len(mutate(data, format, Source(Random(seed), ["word"], other))) <= MOST_BYTES


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_the_same_seed_makes_the_same_changes(format: str) -> None:
    def chain(seed: int) -> list[bytes]:
        random, data, found = Random(seed), EXAMPLES[format], []
        for _ in range(30):
            data = mutate(data, format, Source(random, ["word"], EXAMPLES[format]))
            found.append(data)
        return found

    assert chain(1) == chain(1)
    assert chain(1) != chain(2)


@pytest.mark.parametrize("format", ["json", "sse"])
def test_most_changes_leave_json(format: str) -> None:
    random, valid = Random(0), 0
    for _ in range(200):
        data = FORMATS[format](EXAMPLES[format], Source(random, ["type"], EXAMPLES[format]))
        texts = (
            [data] if format == "json" else [line[6:] for line in data.splitlines() if line[:6] == b"data: "]
        )
        valid += all(_is_json(text) for text in texts if text != b"[DONE]")
    assert valid > 120


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_words_and_parts_of_the_other_input_are_inserted(format: str) -> None:
    random, found = Random(0), b""
    other = b'data: {"zebra":"stripes"}\n\nzebra: stripes' if format != "json" else b'{"zebra":"stripes"}'
    for _ in range(400):
        found += FORMATS[format](EXAMPLES[format], Source(random, ["giraffe"], other))
    assert b"giraffe" in found
    assert b"stripes" in found
