"""The table of targets."""

from __future__ import annotations

from fuzz.target import Target
from fuzz.targets import connections, requests, streams, texts

TARGETS: list[Target] = [*streams.TARGETS, *requests.TARGETS, *connections.TARGETS, *texts.TARGETS]
"""Everything that is fuzzed, in the order in which it runs."""


def chosen(names: list[str] | None) -> list[Target]:
    """Return the targets with these names, or in these groups; all of them by default."""
    known = {name for target in TARGETS for name in (target.name, target.group)}
    for name in names or ():
        if name not in known:
            raise SystemExit(f"there is no target or group {name!r}: `make fuzz ARGS=--list` shows them")
    return [target for target in TARGETS if not names or {target.name, target.group} & set(names)]


def target_named(name: str) -> Target:
    for target in TARGETS:
        if target.name == name:
            return target
    raise SystemExit(f"there is no target {name!r}: the name of a finding's folder is that of its target")
