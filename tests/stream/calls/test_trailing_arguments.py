"""Text after complete arguments: a repeat, another call, or neither."""

from __future__ import annotations

import pytest

from penstock.stream.calls.trailing_arguments import MAX_VALUES, TrailingArguments


@pytest.mark.parametrize("value", ["{}", '""', "x{}", '{"a":"b"}\n'])
def test_the_number_of_values_in_one_delta_is_limited(value: str) -> None:
    found = TrailingArguments().feed(value * 50_000)
    assert MAX_VALUES <= len(found) <= MAX_VALUES + 1
