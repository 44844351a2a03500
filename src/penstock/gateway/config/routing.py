"""Read `[routing]`: how turns are distributed over keys and targets."""

from __future__ import annotations

from typing import Any

from penstock.gateway.config.values import (
    ABOVE,
    OFF,
    ConfigTable,
    InvalidValue,
    ValueReader,
    flag,
    positive_seconds,
    reads,
    whole_number,
)
from penstock.gateway.settings import Routing

MOST_FAILURES = 1000

_FAILURES = whole_number(0, MOST_FAILURES)

_ELSEWHERE = {
    **ABOVE,
    "weight": 'it belongs to a target in a group, such as { target = "NAME", weight = 2 }',
    "weights": 'each belongs to a target in a group, such as { target = "NAME", weight = 2 }',
    "retries": "it belongs under [limits]",
    "retry_wait": "it belongs under [limits]",
    "cooldown": "did you mean eject_time?",
    "cooldown_time": "did you mean eject_time?",
    "allowed_fails": "did you mean eject_after?",
    "sticky": "did you mean affinity?",
}


@reads(anyOf=[{"type": "integer", "minimum": 0, "maximum": MOST_FAILURES}, {"const": OFF}])
def failures_or_off(value: object) -> int:
    """Read a number of failures; 0 or "off" means never."""
    if value == OFF:
        return 0
    try:
        return _FAILURES(value)
    except InvalidValue as error:
        raise InvalidValue(f'{error}, or "{OFF}"') from None


ROUTING: dict[str, ValueReader[bool] | ValueReader[int] | ValueReader[float]] = {
    "affinity": flag,
    "prompt_cache_key": flag,
    "eject_after": failures_or_off,
    "eject_time": positive_seconds,
    "eject_time_max": positive_seconds,
}
"""Every field of `Routing` with its reader."""


def read_routing(table: ConfigTable) -> Routing:
    table.only(ROUTING, _ELSEWHERE)
    plain = Routing()
    values: dict[str, Any] = {
        name: table.read(name, reader, getattr(plain, name)) for name, reader in ROUTING.items()
    }
    found = Routing(**values)
    if found.eject_time > found.eject_time_max:
        written = "eject_time" if "eject_time" in table else "eject_time_max"
        table.report(
            f"eject_time ({found.eject_time:g} s) is longer than eject_time_max ({found.eject_time_max:g} s)",
            written,
        )
    return found
