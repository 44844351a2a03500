"""Ask an upstream for its list of models: can it be reached, does it accept its key, what does it have?

Listing costs nothing and changes nothing, so it may be done when a gateway starts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from msgspec import Struct

from penstock.client.client import OpenResponsesClient
from penstock.dialects.presets import PRESETS, example_models
from penstock.errors import (
    AuthenticationError,
    NetworkError,
    PenstockError,
    ProtocolError,
)
from penstock.models.listing import read_listing
from penstock.protocol.content import JsonObject
from penstock.upstream.http import listing_config
from penstock.upstream.target import UpstreamTarget

PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,199}", re.ASCII)
"""Names of models that may stand in commands and configuration files. A server may list anything."""

LIMIT = 5.0
"""Seconds for an answer. A server on this machine answers in milliseconds, a vendor within a second."""

_NOT_AN_API = ("redirected", "no_json_document", "invalid_http")
"""Codes of answers which show that the base URL is not that of an API."""


class TargetStatus(Struct, frozen=True, kw_only=True):
    """What a target answered."""

    target: str
    models: tuple[str, ...] = ()
    """The models that can chat, as it lists them; empty if it has no list."""
    entries: Sequence[JsonObject] | None = None
    """The list itself; None if it has none."""
    problem: str = ""
    """What is wrong and what to do, after the name of the target; empty if it answered as it should. It
    contains no secret and no text of the server."""
    is_refused: bool = False
    """Whether the target wants a key, or another one."""

    @property
    def sentence(self) -> str:
        """The problem with the name of its target, as in a configuration."""
        return f"targets.{self.target} {self.problem}" if self.problem else ""


async def check_target(target: UpstreamTarget, *, limit: float = LIMIT) -> TargetStatus:
    """List the target's models; never raise."""
    name = target.name
    try:
        async with asyncio.timeout(limit), OpenResponsesClient(listing_config(target)) as client:
            entries = await client.models()
    except TimeoutError:
        problem = f"cannot be reached: no answer within {limit:g} seconds. Check its address and the network"
        return TargetStatus(target=name, problem=problem)
    except NetworkError as error:
        return TargetStatus(target=name, problem=f"cannot be reached: {error.message}")
    except AuthenticationError as error:
        problem = _refused(target, error.status)
        return TargetStatus(target=name, problem=problem, is_refused=True)
    except (PenstockError, OSError, ValueError) as error:
        if is_not_an_api(error) and not target.preset:
            problem = "has no list of models at its address, but a web page or something else: check base_url"
            return TargetStatus(target=name, problem=problem)
        # It answers, but has no list that can be read. Some vendors have none, or not for every key.
        return TargetStatus(target=name)
    return TargetStatus(
        target=name, models=tuple(facts.id for facts in read_listing(entries)), entries=entries
    )


def unset_variable(target: UpstreamTarget) -> str:
    """Return the variable that would have the target's key, if it is known and not set."""
    row = PRESETS.get(target.preset)
    is_used = row is not None and row.key_variable and target.missing_key == f"set {row.key_variable}"
    return row.key_variable if row is not None and is_used and not target.keys else ""


def by_preference(preset: str, listed: Sequence[str]) -> tuple[str, ...]:
    """Return the models of a target, the ones to try first in front. A vendor's list may begin with old
    models, so its examples come first; without a list, they are all that is known."""
    examples = example_models(preset)
    return tuple(dict.fromkeys([*(name for name in examples if name in listed), *listed])) or examples


def is_not_an_api(error: Exception | None) -> bool:
    """Return whether an error shows that the base URL is wrong."""
    return isinstance(error, ProtocolError) and error.code in _NOT_AN_API


def _refused(target: UpstreamTarget, status: int | None) -> str:
    """Return what to do about a refused or missing key; empty if the clients are to send theirs."""
    if target.keys:
        source = f" in {target.key_names[0]}" if target.key_names else ""
        return f"refused the key{source} (HTTP {status}): check its value"
    if target.pass_key:
        return ""
    return f"requires a key: {target.missing_key}" if target.missing_key else "requires a key"
