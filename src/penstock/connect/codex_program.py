"""The `codex` program: how Codex CLI is run with a gateway without a change of its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.connect.codex_config import PROVIDER, provider_settings
from penstock.connect.gateway import ConnectedGateway
from penstock.connect.own_checks import OwnCheck
from penstock.errors import ConfigError
from penstock.gateway.codex_models import codex_model
from penstock.gateway.config.toml_lines import parse
from penstock.gateway.config.values import quoted

PROGRAM = "codex"
CHECK = OwnCheck(
    program=PROGRAM, arguments=("features", "list"), folder_variable="CODEX_HOME", file="config.toml"
)

_MODEL_FLAGS = ("-m", "--model")
_SETTING_FLAGS = ("-c", "--config")


def codex_options(gateway: ConnectedGateway, folder: Path) -> list[str]:
    """Write the list of models into a private folder; return the options for one run."""
    catalog = folder / "models.json"
    models = [codex_model(info, priority) for priority, info in enumerate(gateway.models)]
    catalog.write_bytes(msgspec.json.encode({"models": models}))
    return overrides(gateway, catalog)


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


def codex_model_of(arguments: Sequence[str]) -> str:
    """Return the model that a user's own arguments choose; empty if they choose none."""
    named = configured = ""
    words = iter(arguments)
    for word in words:
        if word == "--":  # what follows is a prompt
            break
        flag, value = _split(word)
        if flag in _MODEL_FLAGS:
            named = next(words, "") if value is None else value
        elif flag in _SETTING_FLAGS:
            setting, _, text = (next(words, "") if value is None else value).partition("=")
            configured = text.strip().strip("\"'") if setting.strip() == "model" else configured
    return named or configured


def codex_model_in(data: bytes) -> str:
    """Return the model that Codex's file names; empty if it names none. `/model` in Codex changes it."""
    try:
        found = parse(data.decode("utf-8-sig"), "").get("model")
    except (UnicodeDecodeError, ConfigError):
        return ""
    return found if isinstance(found, str) else ""


def _split(word: str) -> tuple[str, str | None]:
    """Return an option and its value; None if the value is the next word."""
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        return flag, value if equals else None
    return word[:2], word[2:].removeprefix("=") if word[2:] else None
