"""Parsing overrides, and merging the lines for a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DecodeError
from penstock.models.info import ModelFacts, Prices
from penstock.models.overrides import EXAMPLE, Override, override_for, parse_override

LINES = [
    (
        EXAMPLE,
        Override(
            "gpt-x",
            ModelFacts(
                window=200_000,
                max_output=16_000,
                image_input=True,
                tool_calling=True,
                reasoning=True,
                prices=Prices(1.25, 10.0),
            ),
        ),
    ),
    ("a/b:c=window:1m", Override("a/b:c", ModelFacts(window=1_000_000))),
    ("* = output:8_000 input:1K", Override("*", ModelFacts(max_output=8_000, max_input=1_000))),
    (
        "m = no-images no-tools no-reasoning",
        Override("m", ModelFacts(image_input=False, tool_calling=False, reasoning=False)),
    ),
    ("m = efforts:low/high", Override("m", ModelFacts(efforts=("low", "high")))),
    ("m = efforts:", Override("m", ModelFacts(efforts=()))),
    ("m = price:0/0/0/0", Override("m", ModelFacts(prices=Prices(0.0, 0.0, 0.0, 0.0)))),
]


@pytest.mark.parametrize(("line", "override"), LINES, ids=[line for line, _ in LINES])
def test_a_line_is_parsed(line: str, override: Override) -> None:
    assert parse_override(line) == override


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("", "Example: gpt-x"),
        ("gpt-x window:1000", "Example: gpt-x"),
        ("= window:1000", "Example: gpt-x"),
        ("m =", "Example: gpt-x"),
        ("my model = tools", "use the exact id"),
        ("openai/* = window:1000", "or * for all models"),
        ("m = windows:1000", "use window:, input:, output:, price:, efforts:, images, tools, reasoning"),
        ("m = window", "use window:"),
        ("m = images:yes", "use window:"),
        ("m = window:many", "use 256 to"),
        ("m = window:0", "use 256 to"),
        ("m = window:255", "use 256 to"),
        ("m = output:0", "use 1 to"),
        ("m = output:-1", "use 1 to"),
        ("m = output:1e5", "use 1 to"),
        ("m = window:999999m", "use 256 to"),
        ("m = window:1000 window:2000", "remove one of the two"),
        ("m = tools no-tools", "remove one of the two"),
        ("m = window:1000 output:1000", "lower one of them"),
        ("m = window:1000 input:900 output:101", "lower one of them"),
        ("m = price:1", "dollars per million"),
        ("m = price:1/x", "dollars per million"),
        ("m = price:1/-1", "dollars per million"),
        ("m = price:1/nan", "dollars per million"),
        ("m = price:1/2/3/4/5", "dollars per million"),
    ],
)
def test_an_invalid_line_is_rejected_with_a_hint(line: str, hint: str) -> None:
    with pytest.raises(DecodeError) as caught:
        parse_override(line)
    assert hint in str(caught.value)


def test_an_id_overrides_the_star_and_a_later_line_an_earlier_one() -> None:
    lines = [
        "m = window:1000 tools",
        "* = window:5000 output:500 no-tools",
        "m = window:2000",
        "M = window:9000",
    ]
    overrides = [parse_override(line) for line in lines]
    assert override_for("m", overrides) == ModelFacts(window=2000, max_output=500, tool_calling=True)
    assert override_for("other", overrides) == ModelFacts(window=5000, max_output=500, tool_calling=False)
    assert override_for("m/x", ()) == ModelFacts()


@given(
    st.text()
    | st.lists(st.sampled_from(["m", "=", " ", "window:", "9", "price:", "/", "k", "-", "*"])).map("".join)
)
def test_every_text_is_parsed_or_raises_a_decode_error(line: str) -> None:
    try:
        override = parse_override(line)
    except DecodeError:
        return
    assert override.id
