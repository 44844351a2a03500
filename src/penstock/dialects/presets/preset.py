"""What can be said of a vendor: the columns of the table in `rows.py`."""

from __future__ import annotations

from msgspec import Struct

from penstock.dialects.plan import Quirks

KEY_HEADERS: dict[str, tuple[str, str]] = {
    "bearer": ("Authorization", "Bearer {key}"),
    "x-api-key": ("x-api-key", "{key}"),
    "x-goog-api-key": ("x-goog-api-key", "{key}"),
    "api-key": ("api-key", "{key}"),
}
"""The ways in which a key is sent: the header and its value."""

SAMPLER_FIELDS = frozenset({"top_k", "min_p", "repetition_penalty"})
"""What the samplers of open models take beyond Chat Completions."""


class Preset(Struct, frozen=True, kw_only=True):
    """A vendor. `base_url` has `{placeholders}` only where every customer has an address of their own.

    `quirks` can be overridden in a configuration; everything else is fixed.
    """

    name: str
    title: str
    dialect: str = "chat"
    base_url: str
    key_variable: str = ""
    """The environment variable that holds the key. Servers on the own machine have none."""
    key_header: str = "bearer"
    """How the key is sent: a row of `KEY_HEADERS`."""
    key_prefixes: tuple[str, ...] = ()
    """How its keys begin, where a key could be mistaken for the name of an environment variable."""
    quirks: Quirks = Quirks()
    models: str = ""
    """Names that this vendor knows, as an example."""
    model_prefixes: tuple[str, ...] = ()
    """Other names of the vendor that stand before a model's name, as in `google/gemini-2.5-flash`."""
    note: str = ""

    # Requests in Chat Completions
    optional_fields: frozenset[str] = frozenset()
    """Fields that it takes under their own names and that most others refuse or ignore."""
    cache_key_header: str = ""
    """The header in which it takes `prompt_cache_key`, to send a conversation to one machine."""
    allowed_tools: bool = False
    """Takes a `tool_choice` of type `allowed_tools`. Elsewhere the other tools are not offered."""
    inline_schemas: bool = False
    """Refuses references in the schemas of tools (ask B12)."""
    short_call_ids: bool = False
    """Refuses a call id that is not nine letters and digits, also one that another vendor made."""
    videos: bool = False
    """Takes `video_url`, which is not part of OpenAI's own Chat Completions."""

    # Responses
    also_responses: bool = False
    """Offers /responses at the same address, beside the dialect of this row."""
    original_responses: bool = False
    """Serves OpenAI's own Responses, with every type of tool and item. Others take messages and functions."""

    # Answers
    finish_reasons: tuple[str, ...] = ()
    """The names behind finish reasons that come as numbers, where they differ from those of the dialect."""

    # The list of models
    list_owner: str = ""
    """What its list writes as the owner of every model. It names no vendor."""
    probe: str = ""
    """How it is asked what it has loaded: a row of `penstock.models.probes.PROBES`."""


UNLISTED = Preset(name="", title="", base_url="")
"""A server that is in no table: nothing is special about it."""
