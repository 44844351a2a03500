"""Helpers that several families use."""

from __future__ import annotations

import pytest

from penstock.tools.family import fields_of, positive


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"action": {"a": 1}}', {"a": 1}),
        ('{"action": "exec"}', {"action": "exec"}),
        ("[1]", None),
        ('{"a"', None),
        ("", None),
    ],
)
def test_arguments_are_read_with_or_without_a_wrapper(arguments: str, fields: object) -> None:
    assert fields_of(arguments, "action") == fields


@pytest.mark.parametrize(
    ("value", "number"), [(5, 5), (5.0, 5), (0, None), (-1, None), (True, None), ("5", None), (None, None)]
)
def test_only_a_positive_number_is_a_limit(value: object, number: int | None) -> None:
    assert positive(value) == number
