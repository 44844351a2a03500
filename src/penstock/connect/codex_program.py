"""The `codex` program: where it is, whether it accepts a configuration, and its options for a gateway."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from penstock.connect.codex_config import PROVIDER, provider_settings
from penstock.connect.gateway import ConnectedGateway
from penstock.gateway.config.values import quoted

PROGRAM = "codex"
_LONGEST = 20
"""Seconds in which Codex reads its configuration."""


def find_codex(environment: Mapping[str, str]) -> str | None:
    """Return the path of the program; None if it is not installed."""
    return shutil.which(PROGRAM, path=environment.get("PATH"))


def problem_in_config(program: str, config: bytes) -> str | None:
    """Let Codex itself read a configuration, in an empty home; return its complaint, or an empty text if it
    accepts the file, or None if that could not be found out."""
    with tempfile.TemporaryDirectory(prefix="penstock-codex-") as home:
        Path(home, "config.toml").write_bytes(config)
        command = [program, "features", "list"]
        environment = {**os.environ, "CODEX_HOME": home, "HOME": home, "RUST_BACKTRACE": "0"}
        try:
            ran = subprocess.run(
                command,
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    if ran.returncode == 0:
        return ""
    said = ran.stderr.decode(errors="replace").replace(home, "~/.codex").splitlines()
    errors = [line for line in said if line.strip() and not line.startswith("WARNING")]
    return " ".join(errors[:3])[:400] or f"exit code {ran.returncode}"


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
