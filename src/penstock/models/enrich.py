"""Merge the sources into one description of a model: for each field, the first source that has a value.

The order is that of ask I2: override, endpoint, probe, exact catalog, default. Limits need more care than
other fields, because they must be consistent even if they are from different sources. A limit that was
learned from an error lowers a window or replaces the default, but never what the user has set.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from penstock.models.catalog import in_catalog
from penstock.models.identity import ModelIdentity, parse_model_id
from penstock.models.info import STATED, LearnedLimit, ModelFacts, ModelInfo, Prices, is_count, is_window

DEFAULT_WINDOW = 65_536
"""Used if no source has a window. If it is too large, a request may fail with a clear error; if it is too
small, an editor truncates the conversation after every tool call without an explanation (ask I2 has both
complaints). An editor's own prompt and tools need 20,000 tokens or more, and servers that load less usually
report it."""
DEFAULT_OUTPUT = 4_096
DEFAULTS = ModelFacts(image_input=False, tool_calling=True, reasoning=False)
"""Editors do not offer a model without tools to agents, and few current models lack them."""
DEFAULT_EFFORTS = ("low", "medium", "high")
"""The efforts of a model that reasons, if no source lists any. Most lists say only that a model reasons, and
every dialect has a form for these three."""

_Sources = list[tuple[str, ModelFacts]]
_LIMIT_CHECKS = {"window": is_window, "ceiling": is_window, "max_input": is_count, "max_output": is_count}


class _Limits(Struct, frozen=True):
    window: int
    input: int
    output: int
    sources: dict[str, str]


def enrich(
    facts: ModelFacts,
    override: ModelFacts | None = None,
    probe: ModelFacts | None = None,
    learned: LearnedLimit | None = None,
) -> ModelInfo:
    """Return everything that is known about the model `facts.id`; `facts` is the endpoint's entry."""
    identity = parse_model_id(facts.id)
    sources: _Sources = [
        ("override", _without_invalid_limits(override or ModelFacts())),
        ("endpoint", _without_invalid_limits(facts)),
        ("probe", _without_invalid_limits(probe or ModelFacts())),
    ]
    catalog = ("catalog", in_catalog(identity) or ModelFacts())
    limits = _limits(sources, catalog, learned)
    sources += [catalog, ("default", DEFAULTS)]

    origin: dict[str, str] = {"family": "id", "version": "id", **limits.sources}
    name, origin["name"] = _text("name", sources, identity.name or facts.id)
    description, origin["description"] = _text("description", sources, "")
    vendor, origin["vendor"] = _vendor(identity, facts)
    image_input, origin["image_input"] = _flag("image_input", sources)
    tool_calling, origin["tool_calling"] = _flag("tool_calling", sources)
    reasoning, origin["reasoning"] = _flag("reasoning", sources)
    efforts, origin["efforts"] = _efforts(sources, reasoning)
    prices, origin["prices"] = _prices(sources)
    return ModelInfo(
        id=facts.id,
        name=name,
        vendor=vendor,
        family=identity.family,
        version=identity.version,
        context_window=limits.window,
        max_input=limits.input,
        max_output=limits.output,
        image_input=image_input,
        tool_calling=tool_calling,
        reasoning=reasoning,
        efforts=efforts,
        prices=prices,
        description=description,
        sources=origin,
        learned=learned if origin["context_window"] == "learned" else None,
    )


def _without_invalid_limits(facts: ModelFacts) -> ModelFacts:
    """Return the facts without limits that are out of range."""
    invalid = {
        name: None
        for name, is_valid in _LIMIT_CHECKS.items()
        if (value := getattr(facts, name)) is not None and not is_valid(value)
    }
    return replace(facts, **invalid) if invalid else facts


def _limits(sources: _Sources, catalog: tuple[str, ModelFacts], learned: LearnedLimit | None) -> _Limits:
    output, output_from = _output([*sources, catalog])
    window, window_from = _window(sources, catalog, output)
    if learned is not None and _is_better(learned, window, window_from):
        window, window_from = learned.limit, "learned"
    # Many lists have the whole window as the output limit, so reserve half of it for the input. A user who
    # sets both limits knows what remains.
    is_explicit = output_from == window_from == "override"
    output = min(output, window - 1 if is_explicit else window // 2)
    room, room_from = window - output, window_from
    for source, facts in sources:
        if facts.max_input is not None and facts.max_input < room:
            room, room_from = facts.max_input, source
        if source == window_from:
            # Input limits of later sources belong to their own window: an override must be able to raise a
            # limit.
            break
    return _Limits(
        window,
        room,
        output,
        {"context_window": window_from, "max_input": room_from, "max_output": output_from},
    )


def _is_better(learned: LearnedLimit, window: int, source: str) -> bool:
    if source == "override" or learned.is_outdated(window if source in STATED else 0):
        return False
    # What the server itself names is better than our default, even if it is more.
    return learned.limit < window or source == "default"


def _output(sources: _Sources) -> tuple[int, str]:
    for source, facts in sources:
        if facts.max_output is not None:
            return facts.max_output, source
    return DEFAULT_OUTPUT, "default"


def _window(sources: _Sources, catalog: tuple[str, ModelFacts], output: int) -> tuple[int, str]:
    for source, facts in sources:
        if facts.window is not None:
            return facts.window, "default" if facts.is_window_default else source
        if facts.max_input and facts.max_output and is_window(facts.max_input + facts.max_output):
            return facts.max_input + facts.max_output, source
    ceilings = [(facts.ceiling, source) for source, facts in sources if facts.ceiling is not None]
    if ceilings:
        # A server that loads models itself but does not report how much it loaded: the limits that the vendor
        # publishes do not apply to it.
        return min((DEFAULT_WINDOW, "default"), *ceilings)
    if catalog[1].window is not None:
        return catalog[1].window, catalog[0]
    for source, facts in sources:
        if facts.max_input is not None and is_window(facts.max_input + output):
            return facts.max_input + output, source
    return DEFAULT_WINDOW, "default"


def _text(field: str, sources: _Sources, default: str) -> tuple[str, str]:
    for source, facts in sources:
        text: str = getattr(facts, field)
        if text:
            return text, source
    return default, "id" if default else "default"


def _vendor(identity: ModelIdentity, facts: ModelFacts) -> tuple[str, str]:
    if identity.vendor:
        return identity.vendor, "id"
    return facts.vendor, "endpoint" if facts.vendor else "default"


def _flag(field: str, sources: _Sources) -> tuple[bool, str]:
    found = ((getattr(facts, field), source) for source, facts in sources)
    return next((value, source) for value, source in found if value is not None)


def _efforts(sources: _Sources, reasoning: bool) -> tuple[tuple[str, ...], str]:
    """Return the first efforts that are listed. An empty list counts only in an override and in the catalog:
    others send one for a model that reasons if they do not know its efforts."""
    if not reasoning:  # even if a source lists some
        return (), next(source for source, facts in sources if facts.reasoning is not None)
    for source, facts in sources:
        if facts.efforts or (facts.efforts is not None and source in ("override", "catalog")):
            return facts.efforts, source
    return DEFAULT_EFFORTS, "default"


def _prices(sources: _Sources) -> tuple[Prices | None, str]:
    for source, facts in sources:
        if facts.prices is not None:
            return facts.prices, source
    return None, "default"
