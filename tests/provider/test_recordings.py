"""Every recorded stream, whole or not: the tracker has the provider's figures, or marks an estimate."""

from __future__ import annotations

import pytest

from penstock.provider.tracker import Tokens, UsageTracker
from tests.dialects.recordings import events_of, every, needs_recordings
from tests.parts.adapted import adapt


@needs_recordings
@pytest.mark.parametrize(("file", "name"), every())
def test_the_tracker_has_the_providers_figures(file: str, name: str) -> None:
    events = events_of(file, name)
    result = adapt(events).result
    tracker = UsageTracker()
    tracker.start_request("a", 77, 1000, "m")
    tracker.complete_request("a", result.usage, estimated_output=3)
    told = events[-1].response.usage  # type: ignore[attr-defined]
    if told is None:
        assert (tracker.total.estimates, tracker.total.tokens) == (1, Tokens(77, 3))
        return
    tokens = tracker.total.tokens
    assert tracker.total.estimates == 0
    assert (tokens.input, tokens.output) == (told.input_tokens, told.output_tokens)
    assert tokens.cached == told.input_tokens_details.cached_tokens
    assert tokens.reasoning == told.output_tokens_details.reasoning_tokens
