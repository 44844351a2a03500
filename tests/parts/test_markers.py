"""Markers name the response of a message for a follow-up (decision 28)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.parts.markers import PRIVATE_MIMES, STATEFUL_MARKER, marked_response, marker_part
from penstock.parts.parts import DataPart

ENDPOINT = "https://gateway.example/v1"

plain = st.text(st.characters(codec="utf-8"), max_size=20)
response_ids = plain.filter(lambda name: name != "" and "\\" not in name)


@given(plain, plain, response_ids)
def test_a_marker_names_the_response_for_its_model_and_endpoint(model: str, endpoint: str, id: str) -> None:
    marker = marker_part(model, endpoint, id)
    assert marker.mime == STATEFUL_MARKER
    assert marked_response(marker, model, endpoint) == id


def test_a_marker_begins_with_the_model_and_hides_the_endpoint() -> None:
    text = marker_part("acme/large", ENDPOINT, "resp_1").data.decode()
    assert text.startswith("acme/large\\resp_1@")
    assert ENDPOINT not in text


MARKER = marker_part("m", ENDPOINT, "resp_1")

FOREIGN: dict[str, tuple[DataPart, str, str]] = {
    "another model": (MARKER, "n", ENDPOINT),
    "another endpoint": (MARKER, "m", "https://other.example/v1"),
    "another type": (DataPart(MARKER.data, "text/plain"), "m", ENDPOINT),
    "another provider's marker": (DataPart.text("m\\chatcmpl-1", STATEFUL_MARKER), "m", ENDPOINT),
    "no model": (DataPart.text("resp_1", STATEFUL_MARKER), "", ENDPOINT),
    "no response": (marker_part("m", ENDPOINT, ""), "m", ENDPOINT),
    "nothing": (DataPart(b"", STATEFUL_MARKER), "m", ENDPOINT),
    "no text": (DataPart(b"\xff\xfe\\\x80@", STATEFUL_MARKER), "m", ENDPOINT),
}


@pytest.mark.parametrize(("part", "model", "endpoint"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_marker_of_another_model_or_provider_names_nothing(
    part: DataPart, model: str, endpoint: str
) -> None:
    assert marked_response(part, model, endpoint) is None


@pytest.mark.parametrize(
    ("model", "id"),
    [("a\\b", "resp_1"), ("m@x", "resp_1"), ("m", "resp@1"), ("", "resp_1")],
    ids=["a backslash in the model", "an at sign in the model", "an at sign in the id", "no model"],
)
def test_odd_names_do_not_break_a_marker(model: str, id: str) -> None:
    assert marked_response(marker_part(model, ENDPOINT, id), model, ENDPOINT) == id


def test_a_slash_at_the_end_of_the_endpoint_makes_no_difference() -> None:
    assert marked_response(MARKER, "m", f"{ENDPOINT}/") == "resp_1"
    assert marker_part("m", f"{ENDPOINT}/", "resp_1") == MARKER


def test_the_private_types_of_the_editor_are_known() -> None:
    own = {STATEFUL_MARKER, "usage", "cache_control", "context_management", "thinking", "phase_data"}
    assert own == PRIVATE_MIMES
