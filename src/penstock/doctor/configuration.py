"""Checks the configuration file, the version of Python and the optional parts of the installation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from penstock.doctor.findings import Finding
from penstock.errors import ConfigError
from penstock.extras import OPTIONAL_PARTS
from penstock.formatting import counted
from penstock.gateway.config.file import load_settings
from penstock.gateway.config.options import ServeOptions, settings_from
from penstock.gateway.http.access import is_exposed
from penstock.gateway.settings import Settings

_OLDEST = (3, 11)
_LOCAL = "127.0.0.1"


def check_configuration(
    options: ServeOptions, file: Path | None, environment: Mapping[str, str]
) -> tuple[list[Finding], Settings | None]:
    """Return the findings about the file, and the settings of `penstock serve`; None if they are invalid.

    Raise `OptionError` for invalid options.
    """
    try:
        loaded = load_settings(file, environment) if file else Settings()
    except ConfigError as error:
        return [_invalid(each) for each in error.errors], None
    if not is_exposed(loaded):
        settings = settings_from(options, file, environment)
        return [_valid(file, settings)], settings
    finding = Finding(
        id="config",
        kind="configuration",
        status="problem",
        sentence=f"{file}: {loaded.host} is reachable from other machines, but there are no keys",
        fix="create a key: penstock keys create NAME",
        details={"file": str(file)},
    )
    # `serve` refuses to start like this; everything else can be checked all the same.
    settings = settings_from(replace(options, host=_LOCAL), file, environment)
    return [finding], replace(settings, host=loaded.host)


def _invalid(error: ConfigError) -> Finding:
    return Finding(
        id="config",
        kind="configuration",
        status="problem",
        sentence=str(error),
        fix=f"correct line {error.line} of {error.file}" if error.line else f"correct {error.file}",
        details={"file": error.file, "line": error.line, "message": error.message},
    )


def _valid(file: Path | None, settings: Settings) -> Finding:
    targets, models = counted(len(settings.targets), "target"), counted(len(settings.models), "model")
    what = f"{file} is valid" if file else "there is no configuration file"
    if not settings.targets:
        return Finding(
            id="config",
            kind="configuration",
            status="warning",
            sentence=f"{what}; only the built-in model `demo` is served, because there is no target",
            fix="add a target: penstock serve --preset NAME, or [targets.NAME] in penstock.toml",
            details={"file": str(file) if file else None},
        )
    return Finding(
        id="config",
        kind="configuration",
        status="ok",
        sentence=f"{what}; {targets} and {models} are configured",
        details={"file": str(file) if file else None, "targets": [each.name for each in settings.targets]},
    )


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    shown = ".".join(map(str, version))
    is_old = version[:2] < _OLDEST
    needed = ".".join(map(str, _OLDEST))
    return Finding(
        id="python",
        kind="configuration",
        status="problem" if is_old else "ok",
        sentence=f"Python {shown}" + (f" is too old: Penstock needs {needed} or later" if is_old else ""),
        fix=f"install Python {needed} or later, and Penstock with it" if is_old else "",
        details={"version": shown},
    )


def check_extras(
    is_installed: Callable[[str], bool] = lambda module: find_spec(module) is not None,
) -> Finding:
    missing = [each for each in OPTIONAL_PARTS if not is_installed(each.module)]
    return Finding(
        id="extras",
        kind="configuration",
        status="ok",  # everything works without them
        sentence="; ".join(each.missing for each in missing) or "all optional parts are installed",
        details={"missing": [each.package for each in missing]},
    )
