"""Records what the probes found in the configuration: whether a model supports tools, and whether it reasons.

`GET /v1/models` of the gateway then says so, and clients act on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from penstock.doctor.findings import Finding
from penstock.errors import ConfigError
from penstock.gateway.config.capabilities import with_capabilities
from penstock.gateway.config.file import read_settings
from penstock.gateway.settings import DEMO, Settings
from penstock.shared_file import replace_with_backup

RECORDED = ("tools", "reasoning")
"""The probes whose outcome can be recorded: the words of an override."""


class RecordedModel(Struct, frozen=True):
    """What a model's table says now."""

    model: str
    limits: str
    is_changed: bool


class RecordedAbilities(Struct, frozen=True):
    """What was recorded."""

    models: tuple[RecordedModel, ...] = ()
    backup: Path | None = None
    """The copy of the old file; None if the file did not change."""


def abilities_of(findings: Iterable[Finding], settings: Settings) -> dict[tuple[str, str], dict[str, bool]]:
    """Return what to record, by the model's name in the gateway and the probed target.

    An unclear outcome is not recorded, and neither is that of a target which is only a fallback: a model has
    the abilities of the first target in its chain.
    """
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for each in findings:
        name, outcome = each.details.get("name"), each.details.get("outcome")
        if each.id not in RECORDED or outcome not in ("works", "does not work") or not isinstance(name, str):
            continue
        route = settings.route_of(name) if name else None
        if route is not None and route.name != DEMO and route.steps[0].target == each.target:
            found.setdefault((route.name, each.target), {})[each.id] = outcome == "works"
    return found


def record_abilities(
    path: Path, findings: Iterable[Finding], settings: Settings, environment: Mapping[str, str]
) -> RecordedAbilities:
    """Write the abilities to the file, after a copy of it was made; return what was recorded.

    The new text is read as `serve` would read it before anything is written. Raise `ConfigError` if the file
    cannot be changed; it is unchanged then.
    """
    try:
        data = before = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), 0, f"cannot be read: {error.strerror or error}") from None
    recorded = []
    for (model, target), abilities in abilities_of(findings, settings).items():
        changed, limits = with_capabilities(data, model, target, abilities, str(path))
        recorded.append(RecordedModel(model, limits, changed != data))
        data = changed
    if data == before:
        return RecordedAbilities(tuple(recorded))
    read_settings(data.decode("utf-8-sig"), file=str(path), environment=environment)
    try:
        backup = replace_with_backup(path, data, before=before)
    except OSError as error:
        raise ConfigError(str(path), 0, f"cannot be written: {error.strerror or error}") from None
    return RecordedAbilities(tuple(recorded), backup)
