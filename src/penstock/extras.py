"""The optional parts of an installation: what each adds, and how to install it.

`pip install penstock` installs what running needs. This is the only list of the rest; whoever misses a part
describes it with the sentences of this file.
"""

from __future__ import annotations

from msgspec import Struct


class Extra(Struct, frozen=True):
    """A library that Penstock uses if it is installed."""

    module: str
    adds: str
    """What works, or works better, with it."""
    package: str
    """What to install."""

    @property
    def command(self) -> str:
        """How to install it. Without the quotes, some shells would expand the brackets."""
        return f"pip install '{self.package}'" if "[" in self.package else f"pip install {self.package}"

    @property
    def missing(self) -> str:
        """What to say when it is not installed."""
        return f"{self.package} is not installed; it would add {self.adds}"


EXTRAS: dict[str, Extra] = {
    "tokens": Extra(
        "rs_bpe", "exact token counts for OpenAI models instead of estimates", "penstock[tokens]"
    ),
    "brotli": Extra("brotli", "requests and answers that are compressed with brotli", "penstock[brotli]"),
    "postgres": Extra("asyncpg", "a store in PostgreSQL that several workers share", "penstock[postgres]"),
    "redis": Extra("redis", "fast messages between workers over Redis or Valkey", "penstock[redis]"),
}
"""The extras in pyproject.toml, by name."""

OPTIONAL_PARTS = (*EXTRAS.values(), Extra("uvloop", "a faster event loop", "uvloop"))
"""The extras, and the dependencies that are not installed on every platform."""
