"""What a server on the own machine has really loaded, which its list of models does not say.

The readers are pure: the JSON that a server answered, in; what it tells, out. `probe` asks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from penstock.dialects.presets.rows import PRESETS, vendor_facts
from penstock.errors import PenstockError
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.models.info import ModelFacts, is_window
from penstock.models.listing import read_listing
from penstock.protocol.content import JsonObject

MOST_QUESTIONS = 64
"""Ollama is asked for each of its models; somebody with more than this has other worries."""

_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.ASCII | re.MULTILINE)


class Fetcher(Protocol):
    """Asks the server that the endpoint is on."""

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        """The JSON at a path from the root of the server (`/props`, not `/v1/props`), or None where there is
        none. With a body it is a POST."""


async def probe(way: str, ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    """What a server tells of its models, asked in the way that `probe_of` found. What cannot be asked is
    left out."""
    ask = PROBES.get(way)
    return await ask(ids, fetcher) if ask else {}


def probe_of(preset: str, entries: Sequence[object]) -> str:
    """How this server is asked, a row of `PROBES`: as its preset says, else as the owner that its list names
    gives away; empty for servers that tell nothing."""
    if preset:
        return vendor_facts(preset).probe
    owners = {text_of(object_of(entry).get("owned_by")) for entry in entries}
    return next((way for owner, way in OWNERS.items() if owner in owners), "")


def read_shown(shown: Any, running: Any = None, id: str = "") -> ModelFacts:
    """`POST /api/show`, and what `GET /api/ps` says of a model that is loaded."""
    shown = object_of(shown)
    loaded = [
        each.get("context_length")
        for each in objects_of(object_of(running).get("models"))
        if id and id in (each.get("model"), each.get("name"))
    ]
    set_to = _NUM_CTX.search(text_of(shown.get("parameters")))
    trained = [
        value
        for name, value in object_of(shown.get("model_info")).items()
        if name.endswith(".context_length")
    ]
    abilities = shown.get("capabilities")
    can = set(map(text_of, abilities)) if isinstance(abilities, list) and abilities else None
    return ModelFacts(
        id=id,
        window=_window(*loaded) or (_window(int(set_to[1])) if set_to else None),
        # Ollama loads far less than this unless it is told otherwise, and cuts what does not fit in silence.
        ceiling=_window(*trained),
        image_input=None if can is None else "vision" in can,
        tool_calling=None if can is None else "tools" in can,
        reasoning=None if can is None else "thinking" in can,
    )


def read_loadable(listed: Any) -> dict[str, ModelFacts]:
    """`GET /api/v0/models`, or its successor `/api/v1/models`."""
    listed = object_of(listed)
    return {facts.id: facts for facts in read_listing(objects_of(listed.get("data") or listed.get("models")))}


def read_properties(properties: Any) -> ModelFacts:
    """`GET /props`: one slot's share of the context, which is what one conversation has."""
    properties = object_of(properties)
    sees = object_of(properties.get("modalities")).get("vision")
    return ModelFacts(
        window=_window(object_of(properties.get("default_generation_settings")).get("n_ctx")),
        image_input=sees if isinstance(sees, bool) else None,
    )


def _window(*values: Any) -> int | None:
    counts = map(count_of, values)
    return min((count for count in counts if count is not None and is_window(count)), default=None)


async def _fetched(fetcher: Fetcher, path: str, body: JsonObject | None = None) -> Any:
    try:
        return await fetcher.fetch(path, body)
    except (PenstockError, OSError):  # a server that cannot be asked tells nothing; the list stands without
        return None


async def _ask_show(ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    running = await _fetched(fetcher, "/api/ps")
    found = {}
    for id in ids[:MOST_QUESTIONS]:
        # One after the other: a machine that holds models has better things to do.
        found[id] = read_shown(await _fetched(fetcher, "/api/show", {"model": id}), running, id)
    return found


async def _ask_loaded_instances(_: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    found = read_loadable(await _fetched(fetcher, "/api/v0/models"))
    return found or read_loadable(await _fetched(fetcher, "/api/v1/models"))


async def _ask_props(ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    if len(ids) != 1:  # it answers for the model that it was started with, and does not say which
        return {}
    return {ids[0]: read_properties(await _fetched(fetcher, "/props"))}


PROBES: dict[str, Callable[[Sequence[str], Fetcher], Awaitable[dict[str, ModelFacts]]]] = {
    "show": _ask_show,
    "loaded_instances": _ask_loaded_instances,
    "props": _ask_props,
}
"""How a server is asked. `Preset.probe` says which of them a vendor's server answers."""

OWNERS = {row.list_owner: row.probe for row in PRESETS.values() if row.probe}
"""Whom the lists of these servers name as the owner of every model, and how they are asked."""
