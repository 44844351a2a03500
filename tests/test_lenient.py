from __future__ import annotations

import pytest

from penstock.errors import DecodeError
from penstock.lenient import has_surrogates, parse_json, parse_with_surrogates


def test_parse_raises_value_error_for_invalid_json() -> None:
    assert parse_json("[1]") == [1]
    for text in ("", "{", "[" * 100_000, '"\ud800"'):
        with pytest.raises(ValueError, match=r"\S"):
            parse_json(text)


def test_an_unpaired_surrogate_does_not_invalidate_the_rest() -> None:
    """It is valid JSON if it is escaped; some models end their output there."""
    assert parse_json(r'{"a": "x\ud83d", "b": ["\ud83d\ude00"]}') == {"a": "x\ufffd", "b": ["\U0001f600"]}
    for wrong in (r'{"a": "\ud83d"', r"\ud83d"):
        with pytest.raises(ValueError):  # noqa: PT011 - any kind
            parse_json(wrong)


@pytest.mark.parametrize(
    "data",
    [
        '{"a": "\\ud83d"',
        '{"a": "\\ud83d", "b": NaN}',
        '["\\ud83d"' + "[" * 100_000,
        '{"a": "\\ud83d", "b": ' + "9" * 5000 + "}",
    ],
)
def test_surrogates_do_not_make_invalid_json_valid(data: str) -> None:
    with pytest.raises(DecodeError):
        parse_with_surrogates(data)
    assert has_surrogates(data)
