"""Merging the sources, and limits that always fit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.models.enrich import DEFAULT_EFFORTS, DEFAULT_OUTPUT, DEFAULT_WINDOW, enrich
from penstock.models.info import SOURCES, LearnedLimit, ModelFacts, ModelInfo, Prices
from penstock.models.listing import read_listing
from penstock.models.overrides import parse_override
from tests.models import model_lists


def limits(info: ModelInfo) -> tuple[int, int, int]:
    return info.context_window, info.max_input, info.max_output


def limit_sources(info: ModelInfo) -> tuple[str, ...]:
    return tuple(info.sources[field] for field in ("context_window", "max_input", "max_output"))


def test_the_first_source_with_a_value_counts() -> None:
    """Remove one source after another: the next one counts."""
    override = ModelFacts(window=1_000_000, image_input=False, prices=Prices(1, 1))
    endpoint = ModelFacts(id="gpt-4o", window=100_000, image_input=False, prices=Prices(2, 2))
    probe, bare = ModelFacts(window=50_000, image_input=False), ModelFacts(id="gpt-4o")
    steps = [
        (enrich(endpoint, override, probe), 1_000_000, "override", Prices(1, 1), "override"),
        (enrich(endpoint, None, probe), 100_000, "endpoint", Prices(2, 2), "endpoint"),
        (enrich(bare, None, probe), 50_000, "probe", None, "default"),
        (enrich(bare), 128_000, "catalog", None, "default"),
        (enrich(ModelFacts(id="gpt-unheard-of")), DEFAULT_WINDOW, "default", None, "default"),
    ]
    for info, window, source, prices, prices_source in steps:
        assert (info.context_window, info.sources["context_window"]) == (window, source)
        assert (info.prices, info.sources["prices"]) == (prices, prices_source)
    assert [info.sources["image_input"] for info, *_ in steps] == [
        "override",
        "endpoint",
        "probe",
        "catalog",
        "default",
    ]


def test_an_unknown_model_gets_defaults_marked_as_such() -> None:
    info = enrich(ModelFacts(id="maker/novelty-3"))
    assert info == ModelInfo(
        id="maker/novelty-3",
        name="novelty-3",
        vendor="maker",
        family="novelty-3",
        version="3",
        context_window=DEFAULT_WINDOW,
        max_input=DEFAULT_WINDOW - DEFAULT_OUTPUT,
        max_output=DEFAULT_OUTPUT,
        image_input=False,
        tool_calling=True,
        reasoning=False,
        efforts=(),
        prices=None,
        description="",
        sources={
            **dict.fromkeys(("context_window", "max_input", "max_output"), "default"),
            **dict.fromkeys(("image_input", "tool_calling", "reasoning", "efforts"), "default"),
            **dict.fromkeys(("prices", "description"), "default"),
            **dict.fromkeys(("name", "vendor", "family", "version"), "id"),
        },
    )


@pytest.mark.parametrize(
    "entry", model_lists.ALL, ids=lambda entry: str(entry.get("id") or entry.get("slug"))
)
def test_every_field_has_a_source_and_a_model_can_be_encoded(entry: dict[str, object]) -> None:
    (facts,) = read_listing([entry])
    info = enrich(facts)
    assert {*info.sources} == {*ModelInfo.__struct_fields__} - {"id", "learned", "sources"}
    assert {*info.sources.values()} <= {*SOURCES}
    assert msgspec.json.decode(msgspec.json.encode(info), type=ModelInfo) == info


LIMITS = [
    # facts, then window, input and output
    (ModelFacts(window=200_000, max_output=64_000), (200_000, 136_000, 64_000)),
    # Many lists have the whole window as the output limit.
    (ModelFacts(window=131_072, max_output=131_072), (131_072, 65_536, 65_536)),
    (ModelFacts(window=200_000), (200_000, 200_000 - DEFAULT_OUTPUT, DEFAULT_OUTPUT)),
    (ModelFacts(window=2_048), (2_048, 1_024, 1_024)),
    (ModelFacts(max_input=1_048_576, max_output=65_536), (1_114_112, 1_048_576, 65_536)),
    (ModelFacts(max_input=100_000), (100_000 + DEFAULT_OUTPUT, 100_000, DEFAULT_OUTPUT)),
    (ModelFacts(window=128_000, max_input=64_000, max_output=4_096), (128_000, 64_000, 4_096)),
    (ModelFacts(window=128_000, max_input=128_000, max_output=16_384), (128_000, 111_616, 16_384)),
    (ModelFacts(max_output=8_000), (DEFAULT_WINDOW, DEFAULT_WINDOW - 8_000, 8_000)),
    (ModelFacts(max_output=1_000_000), (DEFAULT_WINDOW, DEFAULT_WINDOW // 2, DEFAULT_WINDOW // 2)),
    # The trained length can lower the default but not raise it.
    (ModelFacts(ceiling=8_192), (8_192, 8_192 - DEFAULT_OUTPUT, DEFAULT_OUTPUT)),
    (ModelFacts(ceiling=1_000_000), (DEFAULT_WINDOW, DEFAULT_WINDOW - DEFAULT_OUTPUT, DEFAULT_OUTPUT)),
    # Out of range
    (
        ModelFacts(window=0, max_input=-5, max_output=0),
        (DEFAULT_WINDOW, DEFAULT_WINDOW - DEFAULT_OUTPUT, DEFAULT_OUTPUT),
    ),
    (
        ModelFacts(window=10**12, max_output=-1),
        (DEFAULT_WINDOW, DEFAULT_WINDOW - DEFAULT_OUTPUT, DEFAULT_OUTPUT),
    ),
    (ModelFacts(max_input=-5, max_output=1_000), (DEFAULT_WINDOW, DEFAULT_WINDOW - 1_000, 1_000)),
]


@pytest.mark.parametrize(("facts", "expected"), LIMITS)
def test_limits_are_adjusted_to_fit(facts: ModelFacts, expected: tuple[int, int, int]) -> None:
    assert limits(enrich(facts)) == expected


def test_an_override_of_the_window_ignores_the_endpoints_input_limit() -> None:
    info = enrich(
        ModelFacts(window=128_000, max_input=64_000, max_output=4_000), ModelFacts(window=1_000_000)
    )
    assert limits(info) == (1_000_000, 996_000, 4_000)
    assert limit_sources(info) == ("override", "override", "endpoint")


def test_an_override_of_only_the_input_keeps_the_window() -> None:
    info = enrich(ModelFacts(window=128_000, max_output=4_000), ModelFacts(max_input=20_000))
    assert limits(info) == (128_000, 20_000, 4_000)
    assert limit_sources(info) == ("endpoint", "override", "endpoint")


def test_an_override_of_both_may_leave_less_than_half_for_the_input() -> None:
    assert limits(enrich(ModelFacts(), ModelFacts(window=10_000, max_output=9_000))) == (10_000, 1_000, 9_000)
    assert limits(enrich(ModelFacts(window=10_000), ModelFacts(max_output=9_000))) == (10_000, 5_000, 5_000)


def test_a_trained_length_overrides_the_catalog() -> None:
    """A server that reports only this may have loaded less than the vendor's own API supports."""
    info = enrich(ModelFacts(id="gpt-4.1", ceiling=1_000_000))
    assert (info.context_window, info.sources["context_window"]) == (DEFAULT_WINDOW, "default")
    info = enrich(ModelFacts(id="gpt-4.1"), None, ModelFacts(ceiling=4_096))
    assert (info.context_window, info.sources["context_window"]) == (4_096, "probe")


def test_a_model_without_reasoning_has_no_efforts() -> None:
    assert enrich(ModelFacts(id="gpt-5")).efforts == ("minimal", "low", "medium", "high")
    assert enrich(ModelFacts(id="gpt-5", reasoning=False)).efforts == ()


def test_a_reasoning_model_without_listed_efforts_gets_low_medium_and_high() -> None:
    infos = [enrich(facts) for facts in read_listing(model_lists.VERCEL_REASONING)]
    assert len(infos) == 4
    for info in infos:
        assert (info.efforts, info.sources["efforts"]) == (("low", "medium", "high"), "default")
        assert info.sources["reasoning"] == "endpoint"
        assert info.listed_efforts == ()


@pytest.mark.parametrize(
    ("facts", "probe", "reasoning_from"),
    [
        (ModelFacts(id="glm-4.6"), ModelFacts(), "catalog"),
        (ModelFacts(id="local"), ModelFacts(reasoning=True), "probe"),
        # Our own gateway sends an empty list if it does not know them.
        (ModelFacts(id="behind-a-gateway", reasoning=True, efforts=()), ModelFacts(), "endpoint"),
    ],
)
def test_any_source_of_reasoning_gives_the_default_efforts(
    facts: ModelFacts, probe: ModelFacts, reasoning_from: str
) -> None:
    info = enrich(facts, None, probe)
    assert (info.efforts, info.sources["efforts"]) == (DEFAULT_EFFORTS, "default")
    assert info.sources["reasoning"] == reasoning_from


@pytest.mark.parametrize(
    ("line", "efforts", "source"),
    [
        ("* = efforts:high/max", ("high", "max"), "override"),
        ("* = efforts:", (), "override"),
        ("* = no-reasoning", (), "override"),
        ("* = tools", DEFAULT_EFFORTS, "default"),
    ],
)
def test_an_override_of_efforts_or_reasoning_wins_over_the_default_efforts(
    line: str, efforts: tuple[str, ...], source: str
) -> None:
    for facts in read_listing(model_lists.VERCEL_REASONING):
        info = enrich(facts, parse_override(line).facts)
        assert (info.efforts, info.sources["efforts"]) == (efforts, source)


@pytest.mark.parametrize(
    "id", ["grok-4", "x-ai/grok-4-0709", "xai/grok-4.1-fast-reasoning", "grok-code-fast-1"]
)
def test_a_model_that_rejects_every_effort_has_none(id: str) -> None:
    """Otherwise an editor would offer a picker, and every choice but the automatic one would fail."""
    for efforts in (None, ()):
        info = enrich(ModelFacts(id=id, efforts=efforts))
        assert (info.reasoning, info.efforts, info.sources["efforts"]) == (True, (), "catalog")
    assert enrich(ModelFacts(id=id, efforts=("low",))).efforts == ("low",)
    assert enrich(ModelFacts(id=id), ModelFacts(efforts=("high",))).efforts == ("high",)


def test_listed_efforts_win_over_the_default_efforts() -> None:
    info = enrich(ModelFacts(id="m", reasoning=True, efforts=("low", "max")))
    assert (info.efforts, info.sources["efforts"]) == (("low", "max"), "endpoint")
    assert info.listed_efforts == ("low", "max")
    info = enrich(ModelFacts(id="grok-3-mini", efforts=()))
    assert (info.efforts, info.sources["efforts"]) == (("low", "high"), "catalog")


def test_the_vendor_is_from_the_id_or_else_from_the_endpoint() -> None:
    infos = [enrich(ModelFacts(id=id, vendor="host")) for id in ("maker/m", "m")]
    assert [(info.vendor, info.sources["vendor"]) for info in infos] == [
        ("maker", "id"),
        ("host", "endpoint"),
    ]


LEARNED = LearnedLimit(48_000, 1_700_000_000, 50_123)


@pytest.mark.parametrize(
    ("facts", "override", "window", "source"),
    [
        (ModelFacts(id="unheard-of"), ModelFacts(), 48_000, "learned"),
        (ModelFacts(window=100_000), ModelFacts(), 48_000, "learned"),
        (ModelFacts(id="gpt-4o"), ModelFacts(), 48_000, "learned"),
        (ModelFacts(window=32_000), ModelFacts(), 32_000, "endpoint"),  # it names a smaller one
        (ModelFacts(id="gpt-4"), ModelFacts(), 8_192, "catalog"),
        (ModelFacts(window=100_000), ModelFacts(window=200_000), 200_000, "override"),
        (ModelFacts(window=100_000), ModelFacts(window=10_000), 10_000, "override"),
        (ModelFacts(window=100_000), ModelFacts(max_output=1_000), 48_000, "learned"),
    ],
)
def test_a_learned_limit_only_lowers_a_window_that_the_user_has_not_set(
    facts: ModelFacts, override: ModelFacts, window: int, source: str
) -> None:
    info = enrich(facts, override, None, LEARNED)
    assert (info.context_window, info.sources["context_window"]) == (window, source)
    assert info.learned == (LEARNED if source == "learned" else None)


ABOVE = LearnedLimit(128_000, 0)


@pytest.mark.parametrize(
    ("facts", "window"),
    [
        (ModelFacts(id="unheard-of"), 128_000),
        (ModelFacts(window=65_536, is_window_default=True), 128_000),  # of a gateway
        (ModelFacts(ceiling=262_144), 128_000),  # what it was trained for is not what the server has loaded
        (ModelFacts(window=100_000), 100_000),
        (ModelFacts(id="gpt-4"), 8_192),
    ],
)
def test_a_learned_limit_above_the_window_replaces_only_a_default(facts: ModelFacts, window: int) -> None:
    assert enrich(facts, learned=ABOVE).context_window == window
    assert enrich(facts, ModelFacts(window=32_000), learned=ABOVE).context_window == 32_000


def test_input_and_output_fit_into_a_learned_window() -> None:
    info = enrich(ModelFacts(window=200_000, max_output=64_000), None, None, LEARNED)
    assert limits(info) == (48_000, 24_000, 24_000)
    assert limit_sources(info) == ("learned", "learned", "endpoint")
    info = enrich(ModelFacts(window=200_000, max_input=20_000, max_output=4_000), None, None, LEARNED)
    assert limits(info) == (48_000, 20_000, 4_000)
    assert limit_sources(info) == ("learned", "endpoint", "endpoint")


def test_a_default_of_a_gateway_is_still_a_default() -> None:
    (facts,) = read_listing([{"id": "m", "context_window": 65_536, "sources": {"context_window": "default"}}])
    info = enrich(facts)
    assert limits(info) == (65_536, 61_440, 4_096)
    assert limit_sources(info) == ("default", "default", "default")
    # The gateway has looked into its own catalog for the model behind this name.
    (facts,) = read_listing(
        [{"id": "gpt-4o", "context_window": 65_536, "sources": {"context_window": "default"}}]
    )
    assert enrich(facts).context_window == 65_536


COUNTS = st.none() | st.integers() | st.integers(0, 1_000) | st.integers(0, 2_000_000)


FACTS = st.builds(
    ModelFacts,
    id=st.sampled_from(["", "m", "gpt-4o", "gpt-oss-20b", "claude-sonnet-4-5", "grok-4"]),
    window=COUNTS,
    ceiling=COUNTS,
    max_input=COUNTS,
    max_output=COUNTS,
)


LIMITS_LEARNED = st.none() | st.integers(256, 2_000_000).map(lambda limit: LearnedLimit(limit, 0))


@given(FACTS, FACTS, FACTS, LIMITS_LEARNED)
@example(ModelFacts(max_input=1, max_output=300), ModelFacts(), ModelFacts(), None)
@example(ModelFacts(), ModelFacts(window=256, max_output=10**8), ModelFacts(), None)
def test_input_and_output_always_fit_into_the_window(
    facts: ModelFacts, override: ModelFacts, probe: ModelFacts, learned: LearnedLimit | None
) -> None:
    info = enrich(facts, override, probe, learned)
    assert info.max_input + info.max_output <= info.context_window
    assert min(info.max_input, info.max_output) >= 1
