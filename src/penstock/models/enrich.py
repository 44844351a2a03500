"""From what the sources tell to what is shown: field by field, the strongest source that says something.

The order is ask I2's: override, endpoint, probe, exact catalog, default. Limits take more thought than
the other fields, because they must agree with each other, whoever told them.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from penstock.models.catalog import in_catalog
from penstock.models.identity import ModelIdentity, parse_model_id
from penstock.models.info import ModelFacts, ModelInfo, Prices, is_count, is_window

DEFAULT_WINDOW = 65_536
"""When nobody knows. Too large, and a request may fail, with an error that says so; too small, and an editor
shortens the conversation after every call of a tool, which nobody can explain (ask I2 has both complaints).
An editor's own prompt and tools take 20,000 tokens and more; servers that load less mostly say so."""
DEFAULT_OUTPUT = 4_096
DEFAULTS = ModelFacts(image_input=False, tool_calling=True, reasoning=False, efforts=())
"""Without tools a model is not offered to agents at all, and few models of today have none."""

_Sources = list[tuple[str, ModelFacts]]
_SOUND = {"window": is_window, "ceiling": is_window, "max_input": is_count, "max_output": is_count}


class _Limits(Struct, frozen=True):
    window: int
    input: int
    output: int
    sources: dict[str, str]


def enrich(
    facts: ModelFacts, override: ModelFacts | None = None, probe: ModelFacts | None = None
) -> ModelInfo:
    """All that is known of the model `facts.id`, where `facts` is what the endpoint lists."""
    identity = parse_model_id(facts.id)
    sources: _Sources = [
        ("override", _sound(override or ModelFacts())),
        ("endpoint", _sound(facts)),
        ("probe", _sound(probe or ModelFacts())),
    ]
    catalog = ("catalog", in_catalog(identity) or ModelFacts())
    limits = _limits(sources, catalog)
    sources += [catalog, ("default", DEFAULTS)]

    from_: dict[str, str] = {"family": "id", "version": "id", **limits.sources}
    name, from_["name"] = _text("name", sources, identity.name or facts.id)
    description, from_["description"] = _text("description", sources, "")
    vendor, from_["vendor"] = _vendor(identity, facts)
    image_input, from_["image_input"] = _switch("image_input", sources)
    tool_calling, from_["tool_calling"] = _switch("tool_calling", sources)
    reasoning, from_["reasoning"] = _switch("reasoning", sources)
    efforts, from_["efforts"] = _efforts(sources, reasoning)
    prices, from_["prices"] = _prices(sources)
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
        sources=from_,
    )


def _sound(facts: ModelFacts) -> ModelFacts:
    """Without the limits that cannot be meant."""
    wrong = {
        name: None
        for name, is_sound in _SOUND.items()
        if (value := getattr(facts, name)) is not None and not is_sound(value)
    }
    return replace(facts, **wrong) if wrong else facts


def _limits(sources: _Sources, catalog: tuple[str, ModelFacts]) -> _Limits:
    output, output_from = _output([*sources, catalog])
    window, window_from = _window(sources, catalog, output)
    # Many lists give the whole window as the limit of output, and half of it must remain for the question. A
    # person who sets both knows what remains.
    is_meant = output_from == window_from == "override"
    output = min(output, window - 1 if is_meant else window // 2)
    room, room_from = window - output, window_from
    for source, facts in sources:
        if facts.max_input is not None and facts.max_input < room:
            room, room_from = facts.max_input, source
        if source == window_from:
            # What weaker sources say of the input belongs to the window that they have in mind: an override
            # must be able to raise a limit.
            break
    return _Limits(
        window,
        room,
        output,
        {"context_window": window_from, "max_input": room_from, "max_output": output_from},
    )


def _output(sources: _Sources) -> tuple[int, str]:
    for source, facts in sources:
        if facts.max_output is not None:
            return facts.max_output, source
    return DEFAULT_OUTPUT, "default"


def _window(sources: _Sources, catalog: tuple[str, ModelFacts], output: int) -> tuple[int, str]:
    for source, facts in sources:
        if facts.window is not None:
            return facts.window, source
        if facts.max_input and facts.max_output and is_window(facts.max_input + facts.max_output):
            return facts.max_input + facts.max_output, source
    ceilings = [(facts.ceiling, source) for source, facts in sources if facts.ceiling is not None]
    if ceilings:
        # A server that loads models itself, and does not say how much it loaded: what the maker of the model
        # publishes says nothing about it.
        return min((DEFAULT_WINDOW, "default"), *ceilings)
    if catalog[1].window is not None:
        return catalog[1].window, catalog[0]
    for source, facts in sources:
        if facts.max_input is not None and is_window(facts.max_input + output):
            return facts.max_input + output, source
    return DEFAULT_WINDOW, "default"


def _text(field: str, sources: _Sources, otherwise: str) -> tuple[str, str]:
    for source, facts in sources:
        text: str = getattr(facts, field)
        if text:
            return text, source
    return otherwise, "id" if otherwise else "default"


def _vendor(identity: ModelIdentity, facts: ModelFacts) -> tuple[str, str]:
    if identity.vendor:
        return identity.vendor, "id"
    return facts.vendor, "endpoint" if facts.vendor else "default"


def _switch(field: str, sources: _Sources) -> tuple[bool, str]:
    found = ((getattr(facts, field), source) for source, facts in sources)
    return next((value, source) for value, source in found if value is not None)


def _efforts(sources: _Sources, reasoning: bool) -> tuple[tuple[str, ...], str]:
    found = ((facts.efforts, source) for source, facts in sources)
    efforts, source = next((value, source) for value, source in found if value is not None)
    # A model that does not think has no efforts, whatever a weaker source says.
    return (efforts, source) if reasoning else ((), source)


def _prices(sources: _Sources) -> tuple[Prices | None, str]:
    for source, facts in sources:
        if facts.prices is not None:
            return facts.prices, source
    return None, "default"
