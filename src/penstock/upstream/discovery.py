"""Find what a gateway could use here: vendors whose key is in the environment, and servers on this machine.

Everything is asked for its list of models, which costs nothing, and all at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.dialects.presets import PRESETS, Preset
from penstock.errors import AuthenticationError, PenstockError
from penstock.lenient import object_of, text_of
from penstock.net.config import check_key
from penstock.protocol.content import JsonObject
from penstock.secret_variables import secret_variable
from penstock.upstream.reachability import PLAIN_NAME, TargetStatus, by_preference, check_target
from penstock.upstream.target import UpstreamTarget

LOCAL_LIMIT = 1.0
VENDOR_LIMIT = 4.0
"""Seconds for an answer."""

LOCAL_SERVERS: tuple[Preset, ...] = tuple(row for row in PRESETS.values() if not row.key_variable)
"""Servers that run on this machine, with their usual addresses."""

_OURS = "penstock"
"""The name of a gateway at its address `/`."""


class FoundUpstream(Struct, frozen=True, kw_only=True):
    """An upstream that can be used."""

    name: str
    """A name for its target; no other found upstream has it."""
    preset: str
    base_url: str
    key_variable: str = ""
    """The variable with its key; empty for a server on this machine."""
    models: tuple[str, ...] = ()
    """Names of its models, the ones to try first in front."""
    problem: str = ""
    """Why it could not be asked, if it could not. It may work later."""

    @property
    def title(self) -> str:
        return PRESETS[self.preset].title

    @property
    def is_local(self) -> bool:
        return not self.key_variable


class Discovery(Struct, frozen=True, kw_only=True):
    """What was found."""

    upstreams: tuple[FoundUpstream, ...] = ()
    """Servers on this machine first: they cost nothing."""
    gateways: tuple[str, ...] = ()
    """The addresses of our own gateways: they must not become their own upstreams."""
    notes: tuple[str, ...] = ()
    """Sentences about what was found but cannot be used as it is, with what to do."""


class _Gateway(Struct, frozen=True):
    base_url: str


async def discover(
    environment: Mapping[str, str],
    *,
    local: Iterable[Preset] | None = None,
    local_limit: float = LOCAL_LIMIT,
    vendor_limit: float = VENDOR_LIMIT,
) -> Discovery:
    """Look for servers and keys; never raise. `local` are the servers to look for, by default all."""
    local = LOCAL_SERVERS if local is None else local
    with_key = [row for row in PRESETS.values() if _key(row, environment)]
    found = await asyncio.gather(
        *(_find_server(row, local_limit) for row in local),
        *(_find_vendor(row, _key(row, environment), vendor_limit) for row in with_key),
    )
    upstreams = [each for each in found if isinstance(each, FoundUpstream)]
    return Discovery(
        upstreams=tuple(_with_unique_names(upstreams)),
        gateways=tuple(each.base_url for each in found if isinstance(each, _Gateway)),
        notes=tuple(each for each in found if isinstance(each, str) and each),
    )


def _key(row: Preset, environment: Mapping[str, str]) -> str:
    return secret_variable(row.key_variable, environment) if row.key_variable else ""


async def _find_vendor(row: Preset, key: str, limit: float) -> FoundUpstream | str:
    """Return a vendor whose key is set, or why it cannot be used."""
    try:
        check_key(key)
    except AuthenticationError:
        return f"the value of {row.key_variable} is not a key: it contains a line break or is not ASCII"
    if "{" in row.base_url:
        return (
            f"{row.key_variable} is set, but {row.title} has an address of its own for every customer: add "
            f'a target with preset = "{row.name}" and base_url = "{row.base_url}"'
        )
    target = UpstreamTarget(
        name=row.name,
        base_url=row.base_url,
        dialect=row.dialect,
        preset=row.name,
        key_header=row.key_header,
        keys=(key,),
        key_names=(row.key_variable,),
    )
    status = await check_target(target, limit=limit)
    if status.is_refused:
        return f"{row.title} {status.problem}"
    return _found(row, row.base_url, status)


async def _find_server(row: Preset, limit: float) -> FoundUpstream | _Gateway | str:
    """Return the server at a usual address, or why it cannot be used; empty if there is none."""
    target = UpstreamTarget(name=row.name, base_url=row.base_url, dialect=row.dialect, preset=row.name)
    status, is_ours = await asyncio.gather(
        check_target(target, limit=limit), _is_gateway(row.base_url, limit)
    )
    if is_ours:
        return _Gateway(row.base_url)
    if status.is_refused:
        return (
            f"the server at {row.base_url} requires a key: put it into an environment variable, and add a "
            f'target with base_url = "{row.base_url}" and keys = ["NAME"], the name of that variable'
        )
    if status.entries is None:  # nothing there, or something else
        return ""
    row_by_list = _row_of(status.entries) or row
    if not status.models:
        return f"{row_by_list.title} is running at {row.base_url}, but has no models yet"
    return _found(row_by_list, row.base_url, status)


async def _is_gateway(base_url: str, limit: float) -> bool:
    """Return whether one of our own gateways has this address."""
    try:
        async with asyncio.timeout(limit), OpenResponsesClient(ClientConfig(base_url, retries=0)) as client:
            return text_of(object_of(await client.fetch("/")).get("name")) == _OURS
    except (PenstockError, OSError, ValueError):  # a TimeoutError is an OSError
        return False


def _row_of(entries: Sequence[JsonObject]) -> Preset | None:
    """Return which server sent a list, by the owner of its models. Any of them may use any port."""
    owners = {text_of(entry.get("owned_by")) for entry in entries}
    return next((row for row in LOCAL_SERVERS if row.list_owner and row.list_owner in owners), None)


def _found(row: Preset, base_url: str, status: TargetStatus) -> FoundUpstream:
    plain = [name for name in status.models if PLAIN_NAME.fullmatch(name)]
    return FoundUpstream(
        name=row.name,
        preset=row.name,
        base_url=base_url,
        key_variable=row.key_variable,
        models=by_preference(row.name, plain),
        problem=status.problem,
    )


def _with_unique_names(upstreams: Iterable[FoundUpstream]) -> Iterable[FoundUpstream]:
    names: set[str] = set()
    for upstream in upstreams:
        name, number = upstream.name, 2
        while name in names:
            name, number = f"{upstream.name}-{number}", number + 1
        names.add(name)
        yield replace(upstream, name=name)
