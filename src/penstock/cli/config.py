"""`penstock config check`: is this configuration good, and what does it say?"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.gateway.settings import ModelRoute, Settings
    from penstock.upstream.target import UpstreamTarget

_USAGE = "penstock config check [FILE]"

_DESCRIPTION = """\
Read a configuration as `penstock serve` would, and tell everything that is
wrong in it, with line and remedy; or else what it says: targets, models, other
names, and the keys of clients. Secrets are not shown. Without FILE it is
penstock.toml here, or else among your settings. docs/configuration.md has all
settings."""

_EPILOG = """\
examples:
  penstock config check
  penstock config check /etc/penstock/penstock.toml

exit codes:
  0  the gateway would start with it
  1  something is wrong in it
  2  nothing was checked: wrong options, or no such file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("action", metavar="check", choices=("check",), help="what to do")
    add("file", metavar="FILE", nargs="?", help="the configuration")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import NAME, find_config, load_settings
    from penstock.gateway.http.access import is_exposed

    path = Path(options.file) if options.file else find_config(Path(), os.environ)
    if path is None:
        raise UsageError(f"there is no {NAME} here, nor among your settings; name a FILE")
    terminal = Terminal()
    try:
        settings = load_settings(path, os.environ)
    except ConfigError as error:
        if not error.line:
            raise UsageError(str(error)) from None
        for each in error.errors:
            terminal.line(terminal.clean(str(each)))
        return FOUND
    if is_exposed(settings):
        terminal.line(
            f"{path}: server.host: {settings.host} is more than this machine, and there are no keys; "
            "make one: penstock keys create NAME"
        )
        return FOUND
    for line in _summary(settings):
        terminal.line(terminal.clean(line))
    terminal.note(f"{path} is good")
    return OK


def _summary(settings: Settings) -> Iterator[str]:
    """Names and addresses. Whether keys are there is told, and nothing of the keys themselves."""
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
    """Rows of two columns; the title stands before the first."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, what in rows:
        yield f"{title:<8} {name:<{width}}  {what}".rstrip()
        title = ""


def _target(target: UpstreamTarget) -> tuple[str, str]:
    from penstock.dialects.presets import PRESETS

    keys = {0: "no key", 1: "1 key is set"}.get(len(target.keys), f"{len(target.keys)} keys are set")
    vendor = PRESETS.get(target.preset)
    if not target.keys and vendor and vendor.key_variable:
        keys = f"no key (its variable is {vendor.key_variable})"
    if target.pass_key:
        keys = f"the client's key, else {keys}" if target.keys else "the client's key"
    # The query of an address may hold a key.
    return target.name, f"{target.dialect}, {target.base_url.partition('?')[0]}, {keys}"


def _chain(route: ModelRoute) -> str:
    steps = [f"{step.target} as {step.model}" if step.model else step.target for step in route.steps]
    return ", then ".join(steps)
