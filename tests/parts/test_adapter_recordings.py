"""Every recorded stream becomes parts with the same text, calls and usage."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from penstock.errors import DecodeError, OpenResponsesError
from penstock.protocol.events import TERMINAL, Event, decode_event
from penstock.protocol.wire import to_builtins
from tests.dialects.recordings import (
    FOLDERS,
    Reading,
    events_of,
    every,
    files,
    frames,
    needs_recordings,
    of_each_provider,
    reading,
)
from tests.parts.adapted import Adapted, adapt

pytestmark = needs_recordings

RESPONSES = files(FOLDERS["responses"])
TYPED = {"shell", "local_shell", "apply_patch", "tool_search"}
"""Tools that have a type instead of a name: the expected readings do not contain their calls."""


translated = cache(events_of)


def as_recorded(file: str) -> list[Event]:
    """Return the unchanged events of a Responses recording. Invalid frames are skipped, as clients do."""
    events: list[Event] = []
    for frame in frames(file):
        with suppress(DecodeError):
            events.append(decode_event(frame.data))
    return events


def assert_equal_content(found: Adapted, expected: Reading) -> None:
    assert found.text == expected.text
    named = [(call.name, call.input) for call in found.calls if call.name not in TYPED]
    assert named == [
        (name, input if isinstance(input, dict) else {"input": input}) for name, input in expected.calls
    ]
    status = found.result.status
    assert status == (expected.status if expected.status in ("completed", "failed") else "incomplete")
    has_answer = bool(found.text.strip() or found.calls or found.data)
    assert (found.result.error is None) == (has_answer and status != "failed")
    if found.result.error is not None:
        assert isinstance(found.result.error, OpenResponsesError)
        assert found.result.error.code
        assert found.result.error.message


def sampled() -> list[Any]:
    """Return every recording; those beyond four per provider run in `make recordings` only."""
    fast = {file for folder in FOLDERS.values() for file in of_each_provider(folder, 4)}
    return [
        pytest.param(file, name, marks=() if file in fast else pytest.mark.recordings)
        for file, name in every()
    ]


@pytest.mark.parametrize(("file", "name"), sampled())
def test_a_translated_recording_as_parts(file: str, name: str) -> None:
    events = translated(file, name)
    found = adapt(events)
    assert_equal_content(found, reading(events))
    assert found.result.usage == events[-1].response.usage  # type: ignore[attr-defined]
    assert found.result.response_id == "resp_1"


@pytest.mark.parametrize("file", RESPONSES)
def test_a_responses_recording_as_parts(file: str) -> None:
    """Without translation: the adapter reads the stream of the server."""
    found = adapt(as_recorded(file))
    assert_equal_content(found, reading(translated(file, "responses")))
    assert _tokens(found) == _provider_tokens(file)


def _tokens(found: Adapted) -> tuple[int, int] | None:
    usage = found.result.usage
    return None if usage is None else (usage.input_tokens, usage.output_tokens)


def _provider_tokens(file: str) -> tuple[int, int] | None:
    """Return the last usage in the recording."""
    last: Any = None
    for frame in frames(file):
        if '"usage"' in frame.data:
            response = json.loads(frame.data).get("response") or {}
            last = response.get("usage") or last
    return None if last is None else (last["input_tokens"], last["output_tokens"])


@pytest.mark.parametrize("file", RESPONSES)
def test_the_recorded_thinking_is_complete(file: str) -> None:
    """The content of each item, or its summary if it has none."""
    events = translated(file, "responses")
    output = to_builtins(events[-1])["response"]["output"]
    thoughts = [item.get("content") or item["summary"] for item in output if item["type"] == "reasoning"]
    expected = "".join(part["text"] for parts in thoughts for part in parts)
    assert adapt(as_recorded(file)).thinking == expected


@pytest.mark.parametrize("file", RESPONSES)
def test_a_recording_that_is_cut_off_ends_in_an_error(file: str) -> None:
    """Wherever it breaks off, before its end: what came stays, nothing is made up, and it is expected."""
    events = as_recorded(file)
    complete = adapt(events).parts
    end = next((n for n, event in enumerate(events) if event.type in TERMINAL), len(events))
    for length in sorted({round(end * part / 9) for part in range(10)}):
        cut = adapt(events[:length])
        assert cut.parts == complete[: len(cut.parts)]
        assert cut.result.error is not None
