"""`penstock config`: check a configuration file and summarise it, or print the schema of such files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.gateway.settings import ModelRoute, Settings
    from penstock.upstream.target import UpstreamTarget

_USAGE = "penstock config check [FILE]\n       penstock config schema"

_DESCRIPTION = """\
Read a configuration as `penstock serve` would, and report every error with its
line and how to fix it. If there are none, print a summary: targets, models,
aliases and client keys. Secrets are not shown. Without FILE, the file that
PENSTOCK_CONFIG names is checked, or penstock.toml in the current folder or in
~/.config/penstock. docs/configuration.md describes all settings.

`schema` prints the JSON Schema of these files, for completion and checks in
editors."""

_EPILOG = """\
examples:
  penstock config check
  penstock config check /etc/penstock/penstock.toml
  penstock config schema > penstock.schema.json

exit codes:
  0  the configuration is valid
  1  it has errors
  2  nothing was checked: wrong options, or no such file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("action", metavar="check|schema", choices=("check", "schema"), help="the action")
    add("file", metavar="FILE", nargs="?", help="the configuration file")


def run(options: argparse.Namespace) -> int:
    return _print_schema(options) if options.action == "schema" else _check(options)


def _print_schema(options: argparse.Namespace) -> int:
    import json

    from penstock.gateway.config.schema import config_schema

    if options.file:
        raise UsageError("`penstock config schema` takes no FILE: the schema is the same for every file")
    Terminal().line(json.dumps(config_schema(), indent=2))
    return OK


def _check(options: argparse.Namespace) -> int:
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import NAME, find_config, load_settings
    from penstock.gateway.http.access import are_metrics_exposed, is_exposed

    path = Path(options.file) if options.file else find_config(Path(), os.environ)
    if path is None:
        raise UsageError(f"no {NAME} in this folder or in ~/.config/penstock; pass a FILE")
    terminal = Terminal()
    try:
        settings = load_settings(path, os.environ)
    except ConfigError as error:
        if not error.line:
            raise UsageError(str(error)) from None
        for each in error.errors:
            terminal.line(terminal.clean(str(each)))
        return PROBLEM
    if is_exposed(settings):
        terminal.line(
            f"{path}: server.host: {settings.host} is reachable from other machines, but there are no keys; "
            "create one: penstock keys create NAME"
        )
        return PROBLEM
    if settings.metrics is not None and are_metrics_exposed(settings):
        terminal.line(
            f"{path}: server.metrics: {settings.metrics[0]} is reachable from other machines, but there is "
            "no token; put the name of a variable with one into server.metrics_token_env"
        )
        return PROBLEM
    for line in _summary(settings):
        terminal.line(terminal.clean(line))
    terminal.note(f"{path} is valid")
    return OK


def _summary(settings: Settings) -> Iterator[str]:
    """Yield the names and addresses, and whether keys are set, but never the keys."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    yield f"server   http://{host}:{settings.port}"
    yield from _listed("targets", [_target(each) for each in settings.targets])
    models = [(name, _chain(route)) for name, route in settings.models.items()]
    if settings.passthrough:
        models.append(("any other", settings.passthrough))
    yield from _listed("models", [("demo", "built in"), *models])
    yield from _listed("aliases", [(name, f"-> {model}") for name, model in settings.aliases.items()])
    if settings.default_model:
        yield f"default  {settings.default_model}"
    yield from _listed("accents", list(settings.accents.items()))
    yield from _listed("keys", [(key.name, key.accent) for key in settings.keys])


def _listed(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    """Yield rows of two columns, with the title before the first row."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, what in rows:
        yield f"{title:<8} {name:<{width}}  {what}".rstrip()
        title = ""


def _target(target: UpstreamTarget) -> tuple[str, str]:
    from penstock.dialects.presets import PRESETS

    keys = {0: "no key", 1: "1 key"}.get(len(target.keys), f"{len(target.keys)} keys")
    vendor = PRESETS.get(target.preset)
    if not target.keys and vendor and vendor.key_variable:
        keys = f"no key (set {vendor.key_variable})"
    if target.pass_key:
        keys = f"the client's key, else {keys}" if target.keys else "the client's key"
    # The query of a URL may contain a key.
    return target.name, f"{target.dialect}, {target.base_url.partition('?')[0]}, {keys}"


def _chain(route: ModelRoute) -> str:
    steps = [f"{step.target} as {step.model}" if step.model else step.target for step in route.steps]
    return ", then ".join(steps)
