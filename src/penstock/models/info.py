"""Types for what is known about a model."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SOURCES = ("override", "learned", "endpoint", "probe", "catalog", "id", "default")
"""The possible sources of a field, in order of precedence. `learned`: from an error of the endpoint; it
lowers a window, or replaces the default. `id`: parsed from the model's name."""

STATED = ("endpoint", "probe")
"""The sources that are the server's own words."""

MIN_WINDOW = 256
MAX_TOKENS = 100_000_000
"""The valid range of a context window: servers that do not know it send 0, -1, 1 or 10^15."""


class Prices(Struct, frozen=True):
    """Dollars per million tokens. None: unknown."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


class LearnedLimit(Struct, frozen=True):
    """A context window that an endpoint named when it refused a longer conversation."""

    limit: int
    learned: float
    """A Unix time."""
    refused: int | None = None
    """The tokens of the refused conversation, if the endpoint counted them."""
    stated: int | None = None
    """The window that the endpoint or a probe stated when this was learned: 0 if neither did, None if it is
    not known, as in older files."""

    def is_outdated(self, stated: int | None) -> bool:
        """Return whether the endpoint or a probe states another window since: the server was reconfigured."""
        return bool(stated) and self.stated not in (None, stated)


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What one source says about a model. None or an empty text means unknown."""

    id: str = ""
    name: str = ""
    vendor: str = ""
    description: str = ""
    window: int | None = None
    ceiling: int | None = None
    """The context length that the model was trained for; the server may have loaded less. It can lower the
    default but never raise it."""
    is_window_default: bool | None = None
    """Whether the endpoint says that its window is a default, as our gateway does."""
    max_input: int | None = None
    max_output: int | None = None
    image_input: bool | None = None
    tool_calling: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    prices: Prices | None = None


class ModelInfo(Struct, frozen=True, kw_only=True):
    """Everything known about a model. Always `max_input + max_output <= context_window`, each at least 1."""

    id: str
    name: str
    vendor: str
    family: str
    version: str
    context_window: int
    max_input: int
    max_output: int
    """Tokens reserved for the answer. If its source is `default`, the limit is unknown: do not send it to the
    endpoint."""
    image_input: bool
    tool_calling: bool
    reasoning: bool
    efforts: tuple[str, ...]
    """The values of `reasoning.effort` to offer. If its source is `default`, no source lists them."""
    prices: Prices | None
    description: str
    sources: Mapping[str, str]
    """For every field except `id`, `learned` and this one, its source: one of `SOURCES`."""
    learned: LearnedLimit | None = None
    """The learned limit, if that is the window."""

    @property
    def listed_efforts(self) -> tuple[str, ...]:
        """The efforts that a source lists for this model: for clients that send one unasked."""
        return () if self.sources.get("efforts") == "default" else self.efforts


def is_window(value: int) -> bool:
    return MIN_WINDOW <= value <= MAX_TOKENS


def is_count(value: int) -> bool:
    return 1 <= value <= MAX_TOKENS
