"""W3C Trace Context: what is joined, what is ignored, and what is sampled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.telemetry.otel.trace_context import (
    IN_MESSAGE,
    SAMPLERS,
    TraceContext,
    client_context,
    joined,
    read_context,
    sampler,
)
from penstock.protocol.request import CreateResponse

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def context_of(parent: str, **more: str) -> TraceContext:
    found = read_context({"traceparent": parent, **more})
    assert found is not None
    return found


def test_a_context_is_read() -> None:
    found = context_of(PARENT, tracestate="a=1, b@c=2 2 ,")
    assert (found.trace_id.hex(), found.span_id.hex(), found.is_sampled) == (TRACE, SPAN, True)
    assert found.state == "a=1,b@c=2 2"


@pytest.mark.parametrize(
    ("parent", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
        (f"  00-{TRACE}-{SPAN}-01\t", True),
    ],
)
def test_flags_and_later_versions_are_understood(parent: str, is_sampled: bool) -> None:
    assert context_of(parent).is_sampled is is_sampled


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "none",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"{PARENT},{PARENT}",  # the header was sent twice
    ],
)
def test_an_invalid_context_is_ignored(parent: str) -> None:
    assert read_context({"traceparent": parent, "tracestate": "a=1"}) is None


@pytest.mark.parametrize(
    "state",
    [
        "a",
        "a=1,a=2",
        "A=1",
        "=1",
        "a=b=c",
        "a=1;b=\x7f",
        ",".join(f"k{number}=v" for number in range(33)),
        "a=" + "x" * 600,
    ],
)
def test_an_invalid_state_is_dropped_alone(state: str) -> None:
    assert context_of(PARENT, tracestate=state).state == ""


@given(st.text(max_size=80))
def test_no_header_raises(text: str) -> None:
    assert read_context({"traceparent": text, "tracestate": text}) is None
    assert read_context({"traceparent": PARENT, "tracestate": text}) is not None


def test_a_child_is_in_the_same_trace_and_is_read_as_it_is_written() -> None:
    parent = context_of(PARENT, tracestate="a=1")
    child = parent.child()
    assert child.span_id != parent.span_id
    assert read_context(child.headers) == child
    assert "tracestate" not in TraceContext(b"1" * 16, b"2" * 8, False).headers


def test_the_context_of_a_message_comes_before_that_of_the_connection() -> None:
    other = f"00-{'1' * 32}-{'2' * 16}-00"
    message = {IN_MESSAGE["traceparent"]: other, IN_MESSAGE["tracestate"]: "m=1", "more": {"any": 1}}
    found = client_context({"traceparent": PARENT}, CreateResponse(client_metadata=message))
    assert found is not None
    assert (found.trace_id.hex(), found.state) == ("1" * 32, "m=1")


@pytest.mark.parametrize(
    "metadata", [{}, {"x": "y"}, {IN_MESSAGE["traceparent"]: 5}, {IN_MESSAGE["traceparent"]: "bad"}]
)
def test_a_message_without_a_valid_context_has_that_of_its_connection(metadata: dict[str, object]) -> None:
    found = client_context({"traceparent": PARENT}, CreateResponse(client_metadata=metadata))
    assert found is not None
    assert found.trace_id.hex() == TRACE
    assert client_context({}, CreateResponse()) is None


def is_sampled(name: str, parent: str | None, ratio: float = 1.0) -> bool:
    context = context_of(parent) if parent else None
    return joined(context, sampler(name, ratio)).is_sampled


ON, OFF = PARENT, f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize(
    ("name", "for_none", "for_on", "for_off"),
    [
        ("parentbased_always_on", True, True, False),
        ("parentbased_always_off", False, True, False),
        ("always_on", True, True, True),
        ("always_off", False, False, False),
    ],
)
def test_samplers(name: str, for_none: bool, for_on: bool, for_off: bool) -> None:
    assert [is_sampled(name, parent) for parent in (None, ON, OFF)] == [for_none, for_on, for_off]


def test_a_ratio_decides_by_the_id_alone() -> None:
    low, high = f"00-{'1' * 16}{'0' * 15}1-{SPAN}-00", f"00-{'1' * 16}{'f' * 16}-{SPAN}-01"
    assert is_sampled("traceidratio", low, 0.5)
    assert not is_sampled("traceidratio", high, 0.5)
    assert not is_sampled("parentbased_traceidratio", low, 0.5)
    assert is_sampled("parentbased_traceidratio", high, 0.5)
    assert [is_sampled("traceidratio", None, ratio) for ratio in (0.0, 1.0)] == [False, True]
    found = sum(is_sampled("parentbased_traceidratio", None, 0.25) for _ in range(2000))
    assert 300 < found < 700


def test_a_new_trace_has_random_ids() -> None:
    first, second = (joined(None, sampler(SAMPLERS[0], 1.0)) for _ in range(2))
    assert first.trace_id != second.trace_id
    assert first.span_id != second.span_id
    assert first.is_sampled
