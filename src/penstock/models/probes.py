"""Ask a local server what it has loaded, which its list of models does not contain.

The readers are pure: they convert the server's JSON to facts. Only `probe` sends requests.
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

MAX_SHOW_REQUESTS = 64
"""The limit for Ollama, which needs one request per model."""

_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.ASCII | re.MULTILINE)


class Fetcher(Protocol):
    """Fetches JSON from the server of the endpoint."""

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        """Return the JSON at a path from the root of the server (`/props`, not `/v1/props`), or None.

        With a body, send a POST.
        """


async def probe(kind: str, ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    """Return the facts about a server's models. `kind` is from `probe_of`. Models that the server does not
    describe are left out."""
    run = PROBES.get(kind)
    return await run(ids, fetcher) if run else {}


def probe_of(preset: str, entries: Sequence[object]) -> str:
    """Return the key of `PROBES` for a server, by its preset or else by the owner in its list; "" if there is
    no probe for it."""
    if preset:
        return vendor_facts(preset).probe
    owners = {text_of(object_of(entry).get("owned_by")) for entry in entries}
    return next((kind for owner, kind in OWNERS.items() if owner in owners), "")


def read_shown(shown: Any, running: Any = None, id: str = "") -> ModelFacts:
    """Read `POST /api/show`, and the entry of a loaded model in `GET /api/ps`."""
    shown = object_of(shown)
    loaded = [
        each.get("context_length")
        for each in objects_of(object_of(running).get("models"))
        if id and id in (each.get("model"), each.get("name"))
    ]
    num_ctx = _NUM_CTX.search(text_of(shown.get("parameters")))
    trained = [
        value
        for name, value in object_of(shown.get("model_info")).items()
        if name.endswith(".context_length")
    ]
    listed = shown.get("capabilities")
    capabilities = set(map(text_of, listed)) if isinstance(listed, list) and listed else None
    return ModelFacts(
        id=id,
        window=_window(*loaded) or (_window(int(num_ctx[1])) if num_ctx else None),
        # By default, Ollama loads far less than this and silently truncates what does not fit.
        ceiling=_window(*trained),
        image_input=None if capabilities is None else "vision" in capabilities,
        tool_calling=None if capabilities is None else "tools" in capabilities,
        reasoning=None if capabilities is None else "thinking" in capabilities,
    )


def read_loadable(listed: Any) -> dict[str, ModelFacts]:
    """Read `GET /api/v0/models`, or its successor `/api/v1/models`."""
    listed = object_of(listed)
    return {facts.id: facts for facts in read_listing(objects_of(listed.get("data") or listed.get("models")))}


def read_properties(properties: Any) -> ModelFacts:
    """Read `GET /props`: the context of one slot, which is what a conversation has."""
    properties = object_of(properties)
    sees = object_of(properties.get("modalities")).get("vision")
    return ModelFacts(
        window=_window(object_of(properties.get("default_generation_settings")).get("n_ctx")),
        image_input=sees if isinstance(sees, bool) else None,
    )


def _window(*values: Any) -> int | None:
    counts = map(count_of, values)
    return min((count for count in counts if count is not None and is_window(count)), default=None)


async def _fetch_or_none(fetcher: Fetcher, path: str, body: JsonObject | None = None) -> Any:
    try:
        return await fetcher.fetch(path, body)
    except (PenstockError, OSError):  # the probe is optional; the list works without it
        return None


async def _probe_show(ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    running = await _fetch_or_none(fetcher, "/api/ps")
    found = {}
    for id in ids[:MAX_SHOW_REQUESTS]:
        # One at a time, to keep the load on the server low.
        found[id] = read_shown(await _fetch_or_none(fetcher, "/api/show", {"model": id}), running, id)
    return found


async def _probe_loaded_instances(_: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    found = read_loadable(await _fetch_or_none(fetcher, "/api/v0/models"))
    return found or read_loadable(await _fetch_or_none(fetcher, "/api/v1/models"))


async def _probe_props(ids: Sequence[str], fetcher: Fetcher) -> dict[str, ModelFacts]:
    if len(ids) != 1:  # it describes the model that it was started with, without naming it
        return {}
    return {ids[0]: read_properties(await _fetch_or_none(fetcher, "/props"))}


PROBES: dict[str, Callable[[Sequence[str], Fetcher], Awaitable[dict[str, ModelFacts]]]] = {
    "show": _probe_show,
    "loaded_instances": _probe_loaded_instances,
    "props": _probe_props,
}
"""The kinds of probe. `Preset.probe` is the kind for a vendor's server."""

OWNERS = {row.list_owner: row.probe for row in PRESETS.values() if row.probe}
"""The owner that a server's list has for every model, and the kind of probe for it."""
