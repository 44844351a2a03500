"""Runs all checks in order: those of this machine one after the other, then all targets at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from penstock.doctor.configuration import check_configuration, check_extras, check_python
from penstock.doctor.findings import Finding
from penstock.doctor.machine import check_port, check_store
from penstock.doctor.probe_turns import open_probe_gateway
from penstock.doctor.probes import run_probes
from penstock.doctor.proxies import check_proxies
from penstock.doctor.targets import (
    ProbedModel,
    configured_models,
    model_to_probe,
    query_target,
    target_findings,
)
from penstock.gateway.config.options import OptionError, ServeOptions
from penstock.gateway.settings import DEMO, Settings
from penstock.models.info import ModelFacts
from penstock.models.overrides import override_for
from penstock.suggestions import unknown
from penstock.upstream.target import UpstreamTarget

LIST_PATIENCE = 15.0
"""Seconds in which a target must list its models."""
TURN_PATIENCE = 90.0
"""Seconds for one turn of a probe: a local server may have to load the model first."""

Report = Callable[[Finding], None]
"""Called with each finding as soon as it is known."""


class DoctorOptions(Struct, frozen=True, kw_only=True):
    """What is checked."""

    serve: ServeOptions = ServeOptions()
    file: Path | None = None
    """The configuration file that `penstock serve` would read; None: there is none."""
    model: str = ""
    """The model to probe with; empty: a configured or a listed one."""
    target: str = ""
    """The only target to check; empty: all of them."""
    is_quick: bool = False
    """Whether no model is used."""
    list_patience: float = LIST_PATIENCE
    turn_patience: float = TURN_PATIENCE


class Examination(Struct, frozen=True):
    """Everything that was found, in the order of the targets."""

    findings: tuple[Finding, ...]
    settings: Settings | None
    """The settings that were checked; None if they are invalid."""


class _Context(Struct, frozen=True):
    settings: Settings
    targets: Sequence[UpstreamTarget]
    environment: Mapping[str, str]


async def _port(context: _Context) -> list[Finding]:
    return [await check_port(context.settings)]


async def _store(context: _Context) -> list[Finding]:
    return [await asyncio.to_thread(check_store, context.settings, context.environment)]


async def _proxies(context: _Context) -> list[Finding]:
    return await check_proxies(context.settings, context.targets, context.environment)


CHECKS: tuple[Callable[[_Context], Awaitable[list[Finding]]], ...] = (_port, _store, _proxies)
"""The checks of this machine, in order."""


async def examine(options: DoctorOptions, environment: Mapping[str, str], report: Report) -> Examination:
    """Run all checks; raise `OptionError` for options with which nothing can be checked."""
    found: list[Finding] = []

    def add(*findings: Finding) -> None:
        for each in findings:
            found.append(each)
            report(each)

    configuration, settings = check_configuration(options.serve, options.file, environment)
    targets = () if settings is None else _selected(settings, options.target)
    add(*configuration, check_python(), check_extras())
    if settings is None:
        add(_skipped("rest", "nothing else was checked, because the configuration is invalid"))
        return Examination(tuple(found), None)
    context = _Context(settings, targets, environment)
    for check in CHECKS:
        add(*await check(context))
    by_target = await asyncio.gather(
        *(_examine_target(context, each, options, report) for each in targets or (None,))
    )
    return Examination((*found, *(finding for findings in by_target for finding in findings)), settings)


def _selected(settings: Settings, name: str) -> tuple[UpstreamTarget, ...]:
    if not name:
        return settings.targets
    chosen = tuple(each for each in settings.targets if each.name == name)
    if not chosen:
        known = [each.name for each in settings.targets]
        raise OptionError(f"--target: {unknown('target', name, known)}")
    return chosen


async def _examine_target(
    context: _Context, target: UpstreamTarget | None, options: DoctorOptions, report: Report
) -> list[Finding]:
    found = []
    async for finding in _target_findings(context, target, options):
        report(finding)
        found.append(finding)
    return found


async def _target_findings(
    context: _Context, target: UpstreamTarget | None, options: DoctorOptions
) -> AsyncIterator[Finding]:
    """Yield the findings about a target; None is the built-in model, if there are no targets."""
    name, model = DEMO, None if target else ProbedModel(DEMO, DEMO)
    is_list_read = True
    if target is not None:
        name = target.name
        wanted = [each.upstream_name for each in configured_models(context.settings, name)]
        state = await query_target(target, options.list_patience)
        findings = target_findings(state, wanted)
        for each in findings:
            yield each
        if any(each.id in ("key", "reach") and each.status == "problem" for each in findings):
            return
        if state.refused:
            yield _skipped("probes", "no model was used, because the target needs the key of a client", name)
            return
        is_list_read = state.error is None
        model = model_to_probe(context.settings, name, state.listed, options.model)
    if options.is_quick:
        yield _skipped("probes", "no model was used, because of --quick", name)
    elif model is None:
        yield _no_model(name, is_list_read=is_list_read)
    else:
        async for finding in _probe(context, target, model, options):
            yield finding


async def _probe(
    context: _Context, target: UpstreamTarget | None, model: ProbedModel, options: DoctorOptions
) -> AsyncIterator[Finding]:
    name = target.name if target else DEMO
    stated = override_for(model.name, context.settings.overrides) if model.name else ModelFacts()
    async with open_probe_gateway(
        context.settings,
        target,
        model.upstream_name,
        patience=options.turn_patience,
        environment=context.environment,
    ) as gateway:
        async for finding in run_probes(gateway, name, model, stated):
            yield finding


def _no_model(target: str, *, is_list_read: bool) -> Finding:
    fix = "name one: penstock doctor --model NAME"
    return Finding(
        id="answer",
        kind="model",
        status="problem",
        sentence="no model was probed, because "
        f"{'the target lists none' if is_list_read else 'the list of models could not be read'} and the "
        "configuration names none",
        fix=fix if is_list_read else f"correct base_url if it is wrong; if the target has no list, {fix}",
        target=target,
    )


def _skipped(id: str, sentence: str, target: str = "") -> Finding:
    return Finding(id=id, kind="capability", status="skipped", sentence=sentence, target=target)
