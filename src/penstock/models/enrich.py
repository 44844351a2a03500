"""From what the sources tell to what is shown: field by field, the strongest source that says something.

The order is notes/asks I2's: override, endpoint, probe, exact catalog, default. Limits take more thought than
the other fields, because they must agree with each other, whoever told them.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from penstock.models.catalog import in_catalog
from penstock.models.identity import ModelIdentity, parse_model_id
from penstock.models.info import ModelInfo, Prices, Told, is_count, is_window

DEFAULT_WINDOW = 65_536
"""When nobody knows. Too large, and a request may fail, with an error that says so; too small, and an editor
shortens the conversation after every call of a tool, which nobody can explain (I2 has both complaints). An
editor's own prompt and tools take 20,000 tokens and more; servers that load less mostly say so."""
DEFAULT_OUTPUT = 4_096
DEFAULTS = Told(image_input=False, tool_calling=True, reasoning=False, efforts=())
"""Without tools a model is not offered to agents at all, and few models of today have none."""

_Sources = list[tuple[str, Told]]
_SOUND = {"window": is_window, "ceiling": is_window, "max_input": is_count, "max_output": is_count}


class _Limits(Struct, frozen=True):
    window: int
    input: int
    output: int
    sources: dict[str, str]


def enrich(told: Told, override: Told | None = None, probe: Told | None = None) -> ModelInfo:
    """All that is known of the model `told.id`, where `told` is what the endpoint lists."""
    identity = parse_model_id(told.id)
    sources: _Sources = [
        ("override", _sound(override or Told())),
        ("endpoint", _sound(told)),
        ("probe", _sound(probe or Told())),
    ]
    catalog = ("catalog", in_catalog(identity) or Told())
    limits = _limits(sources, catalog)
    sources += [catalog, ("default", DEFAULTS)]

    from_: dict[str, str] = {"family": "id", "version": "id", **limits.sources}
    name, from_["name"] = _text("name", sources, identity.name or told.id)
    description, from_["description"] = _text("description", sources, "")
    vendor, from_["vendor"] = _vendor(identity, told)
    image_input, from_["image_input"] = _switch("image_input", sources)
    tool_calling, from_["tool_calling"] = _switch("tool_calling", sources)
    reasoning, from_["reasoning"] = _switch("reasoning", sources)
    efforts, from_["efforts"] = _efforts(sources, reasoning)
    prices, from_["prices"] = _prices(sources)
    return ModelInfo(
        id=told.id,
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


def _sound(told: Told) -> Told:
    """Without the limits that cannot be meant."""
    wrong = {
        name: None
        for name, is_sound in _SOUND.items()
        if (value := getattr(told, name)) is not None and not is_sound(value)
    }
    return replace(told, **wrong) if wrong else told


def _limits(sources: _Sources, catalog: tuple[str, Told]) -> _Limits:
    output, output_from = _output([*sources, catalog])
    window, window_from = _window(sources, catalog, output)
    # Many lists give the whole window as the limit of output, and half of it must remain for the question. A
    # person who sets both knows what remains.
    is_meant = output_from == window_from == "override"
    output = min(output, window - 1 if is_meant else window // 2)
    room, room_from = window - output, window_from
    for source, told in sources:
        if told.max_input is not None and told.max_input < room:
            room, room_from = told.max_input, source
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
    for source, told in sources:
        if told.max_output is not None:
            return told.max_output, source
    return DEFAULT_OUTPUT, "default"


def _window(sources: _Sources, catalog: tuple[str, Told], output: int) -> tuple[int, str]:
    for source, told in sources:
        if told.window is not None:
            return told.window, source
        if told.max_input and told.max_output and is_window(told.max_input + told.max_output):
            return told.max_input + told.max_output, source
    ceilings = [(told.ceiling, source) for source, told in sources if told.ceiling is not None]
    if ceilings:
        # A server that loads models itself, and does not say how much it loaded: what the maker of the model
        # publishes says nothing about it.
        return min((DEFAULT_WINDOW, "default"), *ceilings)
    if catalog[1].window is not None:
        return catalog[1].window, catalog[0]
    for source, told in sources:
        if told.max_input is not None and is_window(told.max_input + output):
            return told.max_input + output, source
    return DEFAULT_WINDOW, "default"


def _text(field: str, sources: _Sources, otherwise: str) -> tuple[str, str]:
    for source, told in sources:
        text: str = getattr(told, field)
        if text:
            return text, source
    return otherwise, "id" if otherwise else "default"


def _vendor(identity: ModelIdentity, told: Told) -> tuple[str, str]:
    if identity.vendor:
        return identity.vendor, "id"
    return told.vendor, "endpoint" if told.vendor else "default"


def _switch(field: str, sources: _Sources) -> tuple[bool, str]:
    found = ((getattr(told, field), source) for source, told in sources)
    return next((value, source) for value, source in found if value is not None)


def _efforts(sources: _Sources, reasoning: bool) -> tuple[tuple[str, ...], str]:
    found = ((told.efforts, source) for source, told in sources)
    efforts, source = next((value, source) for value, source in found if value is not None)
    # A model that does not think has no efforts, whatever a weaker source says.
    return (efforts, source) if reasoning else ((), source)


def _prices(sources: _Sources) -> tuple[Prices | None, str]:
    for source, told in sources:
        if told.prices is not None:
            return told.prices, source
    return None, "default"
