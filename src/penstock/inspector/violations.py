"""The rules that a stream breaks, with what the page says about each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from penstock.errors import DecodeError
from penstock.protocol.events import decode_event
from penstock.store.records import LoggedEvent
from penstock.stream.accents import ACCENTS
from penstock.stream.checker import RULES, StreamChecker, Violation

MOST_VIOLATIONS = 1000
"""A stream that breaks a rule with each event says nothing new after some time."""


class ShownViolation(Struct, frozen=True):
    rule: str
    sequence: int | None
    """The number of the event; None: it shows at the end of the stream."""
    message: str
    title: str
    explanation: str
    clients: list[str]
    """Which clients break, and how."""
    is_tolerated: bool = False
    """Whether the tested clients cope with it (`penstock check --tolerant` does not report it)."""
    page: str = ""
    """The URL of the rule's page; empty: there is none."""


def shown(violation: Violation, sequence: int | None) -> ShownViolation:
    rule = RULES.get(violation.rule)
    if rule is None:
        return ShownViolation(violation.rule, sequence, violation.message, "", "", [])
    return ShownViolation(
        violation.rule,
        sequence,
        violation.message,
        rule.title,
        rule.explanation,
        [rule.breaks] if rule.breaks else [],
        not rule.tolerant,
    )


def shown_all(violations: Iterable[Violation], sequences: Sequence[int]) -> list[ShownViolation]:
    """Return what the page shows. `sequences` has the numbers of the events, by their positions."""
    return [
        shown(each, sequences[each.sequence] if each.sequence < len(sequences) else None)
        for each in list(violations)[:MOST_VIOLATIONS]
    ]


def violations_of_log(events: Sequence[LoggedEvent], accent: str) -> list[ShownViolation]:
    """Check the log of a turn that has ended, as its client got the events."""
    apply = ACCENTS.get(accent, ACCENTS["openresponses"])()
    checker = StreamChecker(accent=apply.name, transport="ndjson")
    found: list[Violation] = []
    for logged in events:
        try:
            found += checker.feed(apply(decode_event(logged.data)))
        except DecodeError as error:
            found.append(Violation("transport.json", checker.events, str(error)))
            checker.events += 1
        if len(found) > MOST_VIOLATIONS:
            break
    else:
        found += checker.end()
    return shown_all(found, [logged.sequence for logged in events])
