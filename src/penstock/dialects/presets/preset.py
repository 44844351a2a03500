"""The columns of the table of vendors in `rows.py`."""

from __future__ import annotations

from msgspec import Struct

from penstock.dialects.plan import Quirks

KEY_HEADERS: dict[str, tuple[str, str]] = {
    "bearer": ("Authorization", "Bearer {key}"),
    "x-api-key": ("x-api-key", "{key}"),
    "x-goog-api-key": ("x-goog-api-key", "{key}"),
    "api-key": ("api-key", "{key}"),
}
"""The ways to send a key: the header and its value."""

SAMPLER_FIELDS = frozenset({"top_k", "min_p", "repetition_penalty"})
"""Sampling parameters of servers for open models that are not part of Chat Completions."""


class Preset(Struct, frozen=True, kw_only=True):
    """A vendor. `base_url` has `{placeholders}` only if every customer has their own address.

    A configuration can override `quirks`; everything else is fixed.
    """

    name: str
    title: str
    dialect: str = "chat"
    base_url: str
    key_variable: str = ""
    """The environment variable that holds the key. Local servers have none."""
    key_header: str = "bearer"
    """How to send the key: a row of `KEY_HEADERS`."""
    key_prefixes: tuple[str, ...] = ()
    """Prefixes of its keys, if a key could be mistaken for the name of an environment variable."""
    quirks: Quirks = Quirks()
    models: str = ""
    """Example model names."""
    model_prefixes: tuple[str, ...] = ()
    """Other names of the vendor in front of a model's name, as in `google/gemini-2.5-flash`."""
    note: str = ""
    telemetry_name: str = ""
    """The vendor's name in OpenTelemetry's GenAI conventions, if it is not the name of the row."""

    # Requests
    optional_fields: frozenset[str] = frozenset()
    """Fields that it accepts under their own names and that most other vendors refuse or ignore."""
    cache_key_header: str = ""
    """The header for `prompt_cache_key`, which routes a conversation to one machine."""
    allowed_tools: bool = False
    """Accepts a `tool_choice` of type `allowed_tools`. Otherwise only the allowed tools are declared."""
    inline_schemas: bool = False
    """Refuses references in the schemas of tools (ask B12)."""
    short_call_ids: bool = False
    """Refuses a call id that is not nine letters and digits, even if another vendor created it."""
    videos: bool = False
    """Accepts `video_url`, which is not part of OpenAI's own Chat Completions."""
    web_search: bool = False
    """Has a web search of its own, in its own dialect, which a client's `web_search` tool can use."""

    # Responses
    also_responses: bool = False
    """Serves /responses at the same address, in addition to the dialect of this row."""
    original_responses: bool = False
    """Serves OpenAI's own Responses, with every tool and item type. Others accept messages and functions."""

    # Answers
    finish_reasons: tuple[str, ...] = ()
    """The names of finish reasons that are sent as numbers, if they differ from those of the dialect."""

    # The list of models
    list_owner: str = ""
    """The placeholder in its list for the owner of every model. It does not name a vendor."""
    probe: str = ""
    """How to find out which models it has loaded: a row of `penstock.models.probes.PROBES`."""


UNLISTED = Preset(name="", title="", base_url="")
"""The defaults, for a server that is not in the table."""
