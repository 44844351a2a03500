"""A case of a client that a driver runs: what the model answers, and what the client must return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from tests.clients.driver import Driver
from tests.clients.script import Repeat, Reply, Say, function
from tests.clients.stage import MODELS, Stage

ALL = tuple(MODELS)


class Case(Struct, frozen=True, kw_only=True):
    run: str
    """The driver's function."""
    script: tuple[Reply | Repeat, ...]
    expected: Any
    """What the driver returns."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dialects: tuple[str, ...] = ALL
    then: Callable[[Stage, str], None] = lambda _stage, _dialect: None
    """Checks of what the upstream got."""


def play(case: Case, dialect: str, stage: Stage, driver: Driver) -> None:
    model = stage.play(dialect, *case.script)
    assert driver.run(case.run, model, **case.arguments) == case.expected
    case.then(stage, dialect)
    stage.check()


def rows(tables: Mapping[str, Mapping[str, Case]]) -> list[tuple[str, str, str]]:
    """Return the client, the case and the dialect of every test."""
    return [
        (client, name, dialect)
        for client, cases in tables.items()
        for name, case in cases.items()
        for dialect in case.dialects
    ]


HELLO = (Say("Hello to you."),)
ADDS = (function("add", a=2, b=3),)
FIVE = (Say("It is 5."),)


def saw_tool_loop(stage: Stage, dialect: str) -> None:
    """The last request contains the call and the output of a tool loop, once each and in this order."""
    last = stage.seen(dialect)[-1]
    assert [kind for kind in last.kinds if kind in ("call", "output")] == ["call", "output"]
    assert "5" in last.texts("output")[0]
