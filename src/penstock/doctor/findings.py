"""What a check finds, and which finding to act on first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warning", "problem", "skipped"]
Kind = Literal["configuration", "port", "store", "network", "key", "model", "capability"]

KINDS: tuple[Kind, ...] = ("configuration", "port", "store", "network", "key", "model", "capability")
"""What a finding is about; the most urgent first. Nothing works without a configuration, and a model without
tools still answers."""

Detail = str | int | float | bool | None | list[str]


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    id: str
    """The check, such as `port` or `tools`."""
    kind: Kind
    status: Status
    sentence: str
    """What was found, in one sentence."""
    fix: str = ""
    """What to do about it; empty if nothing is to be done."""
    target: str = ""
    """The target that was checked; empty if the check is not about a target."""
    details: Mapping[str, Detail] = {}
    """The same for programs. The key `outcome` of a probe is `works`, `does not work` or `unclear`."""


def first_to_fix(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding to act on first: a problem before a warning, then by kind, then in order."""
    to_fix = [each for each in findings if each.status in ("problem", "warning")]
    return min(to_fix, key=lambda each: (each.status != "problem", KINDS.index(each.kind)), default=None)


def has_problems(findings: Iterable[Finding]) -> bool:
    return any(each.status == "problem" for each in findings)
