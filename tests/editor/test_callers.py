"""Each caller of `POST /v1/parts` has its own state."""

from __future__ import annotations

from penstock.client.config import ClientConfig
from penstock.editor.callers import MAX_CALLERS, Callers


def config(key: str) -> ClientConfig:
    return ClientConfig("http://127.0.0.1:9", headers={"authorization": f"Bearer {key}"})


def test_each_caller_has_its_own_figures_and_the_least_recent_are_forgotten() -> None:
    callers = Callers()
    first, second = callers.find("", config("a")), callers.find("", config("b"))
    assert first is callers.find("", config("a"))
    assert first is not second
    assert first is not callers.find("another tenant", config("a"))
    for number in range(MAX_CALLERS - 2):
        callers.find("", config(str(number)))
    assert first is callers.find("", config("a"))  # it called again, so it is remembered
    assert second is not callers.find("", config("b"))
