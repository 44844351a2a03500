"""Checks a target without using a model: its keys, whether it can be reached, and the models it lists."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.client.client import OpenResponsesClient
from penstock.dialects.presets import KEY_HEADERS, PRESETS
from penstock.doctor.findings import Detail, Finding, Kind, Status
from penstock.errors import (
    AuthenticationError,
    NetworkError,
    OpenResponsesError,
    PermissionDeniedError,
    ServerError,
)
from penstock.formatting import counted
from penstock.gateway.settings import Settings
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts
from penstock.models.listing import read_listing
from penstock.net.urls import read_address
from penstock.suggestions import unknown
from penstock.upstream.http import listing_config
from penstock.upstream.keys import KeyRing
from penstock.upstream.reachability import is_not_an_api
from penstock.upstream.refused_keys import name_key
from penstock.upstream.target import UpstreamTarget

_TLS = ("tls_error", "certificate_error")


class TargetState(Struct, frozen=True, kw_only=True):
    """What a target answered when it was asked for its models."""

    target: UpstreamTarget
    listed: tuple[ModelFacts, ...] = ()
    error: OpenResponsesError | None = None
    stage: str = "http"
    """How far the request came: `dns`, `tcp`, `tls`, `proxy` or `http`."""
    refused: tuple[OpenResponsesError, ...] = ()
    """The refusals of keys, one per key."""


class ProbedModel(Struct, frozen=True):
    """The model that a target is probed with."""

    name: str
    """The name under which the gateway offers it; empty if the gateway offers it under no name."""
    upstream_name: str


async def query_target(target: UpstreamTarget, patience: float) -> TargetState:
    """List the models with each key of a target; the first key's list is used."""
    states = [await _query(each, patience) for each in _by_key(target)]
    first = states[0]
    refused = [
        each.error for each in states if isinstance(each.error, (AuthenticationError, PermissionDeniedError))
    ]
    return replace(first, target=target, refused=tuple(refused))


def _by_key(target: UpstreamTarget) -> list[UpstreamTarget]:
    """Return the target once per key, so that every key is tried."""
    names = (*target.key_names, *("" for _ in target.keys[len(target.key_names) :]))
    pairs = zip(target.keys, names, strict=False)
    return [replace(target, keys=(key,), key_names=(name,)) for key, name in pairs] or [target]


async def _query(target: UpstreamTarget, patience: float) -> TargetState:
    try:
        async with asyncio.timeout(patience), OpenResponsesClient(listing_config(target)) as client:
            return TargetState(target=target, listed=tuple(read_listing(await client.models())))
    except TimeoutError:
        message = f"{_place(target)} did not answer within {patience:g} seconds"
        error: OpenResponsesError = NetworkError(message, phase="first_byte")
    except (AuthenticationError, PermissionDeniedError) as refusal:
        keys = KeyRing(target.keys, clock=time.monotonic, names=target.key_names)
        header = KEY_HEADERS[target.key_header][0].lower()
        name_key(refusal, next(iter(target.keys), ""), keys, target, header)
        error = refusal
    except OpenResponsesError as failure:
        error = failure
    return TargetState(target=target, error=error, stage=await _stage(error, target))


async def _stage(error: OpenResponsesError, target: UpstreamTarget) -> str:
    if not isinstance(error, NetworkError) or error.phase != "connect":
        return "tls" if error.code in _TLS else "http"
    if error.code in _TLS:
        return "tls"
    if error.code == "proxy_error":
        return "proxy"
    address = read_address(target.base_url)
    try:
        await asyncio.get_running_loop().getaddrinfo(address.host, address.port)
    except (socket.gaierror, UnicodeError):
        return "dns"
    return "tcp"


def target_findings(state: TargetState, wanted: Sequence[str]) -> list[Finding]:
    """Return the findings about a target. `wanted` are the names of its models in the configuration."""
    return [_key(state), _reach(state), _models(state, wanted)]


# Keys


def _key(state: TargetState) -> Finding:
    target = state.target
    if state.refused:
        return _refused_key(target, state.refused)
    if target.keys:
        return _about(target, "key", "key", "ok", f"{' and '.join(target.key_names)} is set")
    preset = PRESETS.get(target.preset)
    variable = preset.key_variable if preset else ""
    if variable:
        who = "; clients must send their own key" if target.pass_key else ""
        sentence = f"no key is set: the variable {variable} is unset or empty{who}"
        return _about(target, "key", "key", "warning", sentence, target.missing_key, variable=variable)
    needed = ", and none was required" if state.error is None else ""
    return _about(target, "key", "key", "ok", f"no key is configured{needed}")


def _refused_key(target: UpstreamTarget, refused: Sequence[OpenResponsesError]) -> Finding:
    names = [each.refused_key for each in refused if each.refused_key]
    sentence = "; ".join(dict.fromkeys(each.message for each in refused))
    fix = f"check the value of {' and '.join(names)}" if names else target.missing_key
    if not target.keys and target.pass_key:
        fix = f"let clients send their own keys, or {target.missing_key}"
        return _about(target, "key", "key", "warning", sentence, fix)
    return _about(target, "key", "key", "problem", sentence, fix, variables=names)


# Reachability


def _reach(state: TargetState) -> Finding:
    target, error = state.target, state.error
    place = _place(target)
    if isinstance(error, NetworkError):
        fix = "check base_url, the network and the proxy; if it is your own server, start it"
        return _about(target, "reach", "network", "problem", error.message, fix, stage=state.stage)
    if error is not None and is_not_an_api(error):
        fix = f"correct base_url of the target {target.name}"
        return _about(target, "reach", "network", "problem", error.message, fix, stage=state.stage)
    if isinstance(error, ServerError):
        sentence = f"{place} failed when it was asked for its models: {error.message}"
        return _about(target, "reach", "network", "warning", sentence, "try again later", stage="http")
    return _about(target, "reach", "network", "ok", f"{place} answers", stage="http")


def _place(target: UpstreamTarget) -> str:
    return target.base_url.partition("?")[0]  # the query may contain a key


# Models


def _models(state: TargetState, wanted: Sequence[str]) -> Finding:
    target, error = state.target, state.error
    if state.refused or isinstance(error, (NetworkError, ServerError)) or is_not_an_api(error):
        return _about(target, "models", "model", "skipped", "the list of models could not be read")
    if error is not None:
        sentence = f"the list of models could not be read: {error.message}"
        fix = "if requests fail as well, correct base_url"
        return _about(target, "models", "model", "warning", sentence, fix)
    ids = [facts.id for facts in state.listed]
    if not ids:
        fix = "load a model in the server, or check what the key may use"
        return _about(target, "models", "model", "warning", "the target lists no chat models", fix)
    missing = [name for name in wanted if name not in ids]
    if missing:
        sentence = f"{unknown('model', missing[0], ids[:_MOST_NAMED])} at this target"
        fix = f"correct the name {missing[0]} in the configuration"
        return _about(target, "models", "model", "warning", sentence, fix, missing=missing, count=len(ids))
    return _about(
        target, "models", "model", "ok", f"{counted(len(ids), 'chat model')} listed", count=len(ids)
    )


_MOST_NAMED = 1000
"""Names in a list that are compared with a name that it lacks."""


def configured_models(settings: Settings, target: str) -> list[ProbedModel]:
    """Return the models of a target that the configuration names, the default model first."""
    found: dict[str, ProbedModel] = {}
    for name in filter(None, [settings.default_model, *settings.models]):
        route = settings.route_of(name)
        for step in route.steps if route else ():
            if route is not None and step.target == target:
                found.setdefault(route.name, ProbedModel(route.name, step.model or route.name))
    return [*found.values()]


def model_to_probe(
    settings: Settings, target: str, listed: Iterable[ModelFacts], asked: str = ""
) -> ProbedModel | None:
    """Return the model that was asked for, else the first configured one, else the first listed one that is
    known to support tools, else the first listed one; None if there is none."""
    configured = configured_models(settings, target)
    is_offered = settings.passthrough == target
    if asked:
        named = next((each for each in configured if asked in (each.name, each.upstream_name)), None)
        return named or ProbedModel(asked if is_offered else "", asked)
    if configured:
        return configured[0]
    best = min(listed, key=_rank, default=None)
    return None if best is None else ProbedModel(best.id if is_offered else "", best.id)


def _rank(facts: ModelFacts) -> int:
    info = enrich(facts, ModelFacts())
    if info.sources["tool_calling"] == "default":
        return 1
    return 0 if info.tool_calling else 2


def _about(
    target: UpstreamTarget,
    id: str,
    kind: Kind,
    status: Status,
    sentence: str,
    fix: str = "",
    **details: Detail,
) -> Finding:
    return Finding(
        id=id, kind=kind, status=status, sentence=sentence, fix=fix, target=target.name, details=details
    )
