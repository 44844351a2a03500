"""What is known of a model, and what one source tells of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SOURCES = ("override", "endpoint", "probe", "catalog", "id", "default")
"""Where a field can be from, the strongest first. `id`: read from the name of the model."""

LEAST_WINDOW = 256
MOST_TOKENS = 100_000_000
"""Fewer are no context window, and more are no limit: servers that do not know write 0, -1, 1 or 10^15."""


class Prices(Struct, frozen=True):
    """Dollars per million tokens. None: not told."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What one source says of a model. None, or an empty text, means that it says nothing."""

    id: str = ""
    name: str = ""
    vendor: str = ""
    description: str = ""
    window: int | None = None
    ceiling: int | None = None
    """The length that the model was trained for, told by a server that may have loaded less. It can lower a
    guess and never raise one."""
    max_input: int | None = None
    max_output: int | None = None
    image_input: bool | None = None
    tool_calling: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    prices: Prices | None = None


class ModelInfo(Struct, frozen=True, kw_only=True):
    """A model, ready to be shown. Always `max_input + max_output <= context_window`, each at least 1."""

    id: str
    name: str
    vendor: str
    family: str
    version: str
    context_window: int
    max_input: int
    max_output: int
    """What is kept free for the answer. Where its source is `default` nobody named a limit: there is none to
    be sent to the endpoint."""
    image_input: bool
    tool_calling: bool
    reasoning: bool
    efforts: tuple[str, ...]
    """The words for `reasoning.effort` that the model takes, where somebody says so."""
    prices: Prices | None
    description: str
    sources: Mapping[str, str]
    """For every field but `id` and this one, where it is from: one of `SOURCES`."""


def is_window(value: int) -> bool:
    return LEAST_WINDOW <= value <= MOST_TOKENS


def is_count(value: int) -> bool:
    return 1 <= value <= MOST_TOKENS
