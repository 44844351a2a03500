"""The `codex` program: where it is, how it reads a configuration, and its options for a gateway."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from penstock.connect.codex_config import PROVIDER, provider_settings
from penstock.connect.gateway import ConnectedGateway
from penstock.connect.own_checks import OwnCheck
from penstock.gateway.config.values import quoted

PROGRAM = "codex"
CHECK = OwnCheck(
    program=PROGRAM, arguments=("features", "list"), folder_variable="CODEX_HOME", file="config.toml"
)


def find_codex(environment: Mapping[str, str]) -> str | None:
    """Return the path of the program; None if it is not installed."""
    return shutil.which(PROGRAM, path=environment.get("PATH"))


def overrides(gateway: ConnectedGateway, catalog: Path) -> list[str]:
    """Return the options that make Codex use a gateway for one run, without a change of its files.

    The list of models is a file here: Codex would keep one that it requested in the user's home, for other
    providers as well.
    """
    settings = {
        "model": gateway.model,
        "model_provider": PROVIDER,
        "model_catalog_json": str(catalog),
        **{
            f"model_providers.{PROVIDER}.{name}": value
            for name, value in provider_settings(gateway).items()
            if name != "model_catalog_url"
        },
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={quoted(value)}")]
