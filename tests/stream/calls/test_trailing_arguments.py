"""Text after complete arguments: a repeat, another call, or neither."""

from __future__ import annotations

import json

import pytest

from penstock.stream.calls.trailing_arguments import MAX_VALUES, TrailingArguments, TrailingKind, canonical


@pytest.mark.parametrize("value", ["{}", '""', "x{}", '{"a":"b"}\n'])
def test_the_number_of_values_in_one_delta_is_limited(value: str) -> None:
    found = TrailingArguments().feed(value * 50_000)
    assert MAX_VALUES <= len(found) <= MAX_VALUES + 1


SENT = '{"city":"Rome"}'
REPEAT, OTHER, RUBBISH = TrailingKind


def tail(*fragments: str) -> tuple[TrailingArguments, list[tuple[TrailingKind, str]]]:
    """The trailing text of a call with the arguments `SENT`, and what was found in it."""
    arguments = TrailingArguments()
    arguments.remember(SENT)
    return arguments, [found for fragment in fragments for found in arguments.feed(fragment)]


@pytest.mark.parametrize(
    ("fragments", "kinds"),
    [
        ([SENT], [REPEAT]),
        (['{ "city" : ', '"Rome" }'], [REPEAT]),
        ([json.dumps(SENT)], [REPEAT]),
        ([json.dumps(SENT)[:5], json.dumps(SENT)[5:]], [REPEAT]),
        (['{"city":"Oslo"}'], [OTHER]),
        (['{"city":"Oslo"}', '{"city":"Oslo"}'], [OTHER, REPEAT]),
        ([SENT + '{"city":"Oslo"},' + SENT], [REPEAT, OTHER, REPEAT]),
        (['"{\\"city\\":\\"Oslo\\"}"'], [RUBBISH]),
        (["{city}"], [RUBBISH]),
        ([" then ", SENT], [RUBBISH, REPEAT]),
        ([" ,\n"], []),
    ],
)
def test_trailing_text_is_a_repeat_another_call_or_neither(
    fragments: list[str], kinds: list[TrailingKind]
) -> None:
    arguments, found = tail(*fragments)
    assert [kind for kind, _ in found] == kinds
    assert not arguments.is_pending


def test_incomplete_text_is_pending_until_it_is_complete_or_cleared() -> None:
    arguments, found = tail('{"city":"Os')
    assert (found, arguments.is_pending, arguments.cut_short) == ([], True, '{"city":"Os')
    assert arguments.feed('lo"}') == [(OTHER, '{"city":"Oslo"}')]
    assert not arguments.is_pending
    arguments.feed('"half')
    assert arguments.is_pending
    arguments.clear()
    assert not arguments.is_pending


def test_a_partial_repeat_does_not_begin_another_call() -> None:
    arguments, _ = tail('{"ci')
    assert (arguments.is_pending, arguments.cut_short) == (True, "")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }', True),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":1}', '{"a":1.0}', False),
        ("{", "{", True),
        ("{", "[", False),
        ('"\\ud83d"', '"\\ud83d"', True),
    ],
)
def test_arguments_are_compared_as_json(one: str, other: str, equal: bool) -> None:
    assert (canonical(one) == canonical(other)) == equal
