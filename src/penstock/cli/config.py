"""`penstock config`: check a configuration file, show all settings and their origins, or print the schema."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.serve import add_serve_options, serve_options
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.errors import ConfigError
    from penstock.gateway.settings import ModelRoute, RouteStep, Settings
    from penstock.upstream.target import UpstreamTarget

_USAGE = """\
penstock config check [FILE]
       penstock config show [FILE] [--json] [options of serve]
       penstock config schema"""

_DESCRIPTION = """\
Check the settings of a gateway, or show them. Without FILE, the file that
PENSTOCK_CONFIG names is used, or penstock.toml in the current folder or in
~/.config/penstock. docs/configuration.md describes all settings.

`check` reads a file as `penstock serve` would, and reports every error with
its line and how to fix it. If there are none, it prints a summary.

`show` prints the settings that the gateway would start with, each with its
origin: a line of the file, an environment variable, an option, a preset or the
default. It takes the options of `penstock serve` and shows their effect.

`schema` prints the JSON Schema of the file, for completion and checks in
editors.

No command shows a secret: only names of variables, and whether they are set."""

_EPILOG = """\
examples:
  penstock config check
  penstock config check /etc/penstock/penstock.toml
  penstock config show
  penstock config show --preset anthropic --port 9000
  penstock config schema > penstock.schema.json

exit codes:
  0  the configuration is valid
  1  it has errors
  2  nothing was checked: wrong options, or no such file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    # One parser per action: options of another action must be rejected.
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", title="actions", prog="penstock config", required=True
    )
    for name, (summary, _) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name != "schema":
            action.add_argument("file", metavar="FILE", nargs="?", help="the configuration file")
        if name == "show":
            action.add_argument("--json", action="store_true", help="print one JSON object")
            add_serve_options(action)


def run(options: argparse.Namespace) -> int:
    return _ACTIONS[options.action][1](options)


def _print_schema(_: argparse.Namespace) -> int:
    import json

    from penstock.gateway.config.schema import config_schema

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
        return _report(error, terminal)
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


def _report(error: ConfigError, terminal: Terminal) -> int:
    """Print all errors of a file; raise `UsageError` if it cannot be read."""
    if not error.line:
        raise UsageError(str(error)) from None
    for each in error.errors:
        terminal.line(terminal.clean(str(each)))
    return PROBLEM


def _show(options: argparse.Namespace) -> int:
    from penstock.cli.config_show import as_json, as_toml
    from penstock.errors import ConfigError
    from penstock.gateway.config.effective import effective_settings
    from penstock.gateway.config.file import find_config, named_by_variable
    from penstock.gateway.config.options import OptionError

    path = Path(options.file) if options.file else find_config(Path(), os.environ)
    terminal = Terminal()
    try:
        settings = effective_settings(serve_options(options), path, os.environ)
    except ConfigError as error:
        return _report(error, terminal)
    except OptionError as error:
        raise UsageError(str(error)) from None
    if options.json:
        terminal.result(as_json(settings, path))
        return OK
    for line in as_toml(settings, terminal.width):
        terminal.line(terminal.clean(line))
    terminal.note(f"the file is {path}{named_by_variable(path, os.environ)}" if path else "there is no file")
    return OK


_ACTIONS: dict[str, tuple[str, Callable[[argparse.Namespace], int]]] = {
    "check": ("report every error in a file, or summarize it", _check),
    "show": ("print all settings, each with its origin", _show),
    "schema": ("print the JSON Schema of the file", _print_schema),
}


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
    return ", then ".join(" or ".join(_shares(group)) for group in route.groups)


def _shares(group: list[RouteStep]) -> Iterator[str]:
    """Yield the targets of a group, with their shares of the conversations."""
    total = sum(step.weight for step in group)
    for step in group:
        share = f" ({step.weight / total:.0%})" if len(group) > 1 else ""
        yield f"{step.target} as {step.model}{share}" if step.model else f"{step.target}{share}"
