"""Choose the model with which a client starts, and find out before it starts whether that can work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.presets import PRESETS
from penstock.gateway.config.options import OptionError
from penstock.gateway.settings import DEMO, EVERY, ModelRoute, RouteStep, Settings
from penstock.suggestions import near_names, unknown
from penstock.upstream.reachability import LIMIT, TargetStatus, by_preference, check_target, unset_variable
from penstock.upstream.target import UpstreamTarget


class ModelChoice(Struct, frozen=True, kw_only=True):
    """The model, and settings with which a gateway routes it."""

    settings: Settings
    model: str
    targets: tuple[UpstreamTarget, ...]
    """Where its requests go, in order; empty for the demo model."""
    warnings: tuple[str, ...] = ()
    """What may not work, in sentences."""


def with_own_keys(settings: Settings, target: str = "") -> Settings:
    """Return settings for a gateway whose clients have no keys for upstreams. `target` is the one that the
    options describe."""
    advice = "add --api-key-env NAME"
    return replace(
        settings,
        targets=tuple(
            replace(
                each,
                pass_key=False,
                missing_key=advice if each.name == target and not unset_variable(each) else each.missing_key,
            )
            for each in settings.targets
        ),
    )


async def choose_model(
    settings: Settings, *, target: str = "", model: str = "", limit: float = LIMIT
) -> ModelChoice:
    """Return the model to start with: `model`, else the first that suits. If `target` is set, it is a model
    of this target, whatever the configuration file says about its name.

    Raise `OptionError` if there is no such model, or if the key for it is missing.
    """
    wanted = model
    if not target:
        model = model or _configured(settings)
        _check_name(settings, wanted)
    steps = _steps(settings, target, model)
    asked = [each for each in settings.targets if each.name in {step.target for step in steps}]
    _check_keys(asked)
    statuses = await asyncio.gather(*(check_target(each, limit=limit) for each in asked))
    refused = [each.sentence for each in statuses if each.is_refused and not _has_key(asked, each.target)]
    if refused and len(refused) == len(steps):
        raise OptionError(refused[0])
    if not model:
        model = _first(asked[0], statuses[0])
    if target:
        settings = _routed(settings, model, target)
    by_name = {each.name: each for each in asked}
    warnings = [each.sentence for each in statuses if each.sentence]
    warnings += [_unlisted(wanted, step, statuses) for step in steps if wanted]
    return ModelChoice(
        settings=settings,
        model=model,
        targets=tuple(by_name[step.target] for step in steps if step.target in by_name),
        warnings=tuple(filter(None, warnings)),
    )


def _configured(settings: Settings) -> str:
    """Return the first model that the configuration names; empty if only an upstream's list has names."""
    aliases = (name for name in settings.aliases if name != EVERY)
    named = settings.default_model or next(iter(settings.models), "") or next(aliases, "")
    return named or ("" if settings.passthrough else DEMO)


def _check_name(settings: Settings, model: str) -> None:
    if model and settings.route_of(model) is None:
        known = [name for name in (*settings.models, *settings.aliases, DEMO) if name != EVERY]
        raise OptionError(f"--model: {unknown('model', model, known)}")


def _steps(settings: Settings, target: str, model: str) -> tuple[RouteStep, ...]:
    if target:
        return (RouteStep(target, model),)
    route = settings.route_of(model) if model else None
    return route.steps if route else (RouteStep(settings.passthrough),)


def _routed(settings: Settings, model: str, target: str) -> Settings:
    """Return settings in which a name is the model of a target, and nothing else."""
    route = ModelRoute(name=model, steps=(RouteStep(target, model),))
    aliases = {name: each for name, each in settings.aliases.items() if name != model}
    return replace(settings, models={**settings.models, model: route}, aliases=aliases)


def _check_keys(targets: Sequence[UpstreamTarget]) -> None:
    """Raise `OptionError` if no target can be used because the vendor's key is not set."""
    missing = [each for each in targets if _needs_key(each)]
    if missing and len(missing) == len(targets):
        raise OptionError(f"targets.{missing[0].name} requires a key: {missing[0].missing_key}")


def _needs_key(target: UpstreamTarget) -> bool:
    """Return whether this is a vendor's own address, without the vendor's key."""
    is_vendor = target.preset in PRESETS and target.base_url == PRESETS[target.preset].base_url
    return is_vendor and bool(unset_variable(target)) and not target.secrets


def _has_key(targets: Sequence[UpstreamTarget], name: str) -> bool:
    return any(each.name == name and (each.keys or each.secrets) for each in targets)


def _first(target: UpstreamTarget, status: TargetStatus) -> str:
    found = by_preference(target.preset, status.models)
    if not found:
        why = status.sentence or f"targets.{target.name} does not list its models"
        end = "" if why.endswith("?") else "."
        raise OptionError(f"{why}{end} Name the model with --model NAME")
    return found[0]


def _unlisted(model: str, step: RouteStep, statuses: Sequence[TargetStatus]) -> str:
    """Return a warning if a target has a list of models in which the wanted one is missing."""
    name = step.model or model
    listed = next((each.models for each in statuses if each.target == step.target), ())
    if not listed or name in listed:
        return ""
    near = " or ".join(near_names(name, listed))
    return (
        f"targets.{step.target} does not list {name}: {f'did you mean {near}?' if near else 'check the name'}"
    )
