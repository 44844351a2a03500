"""`[routing]` in `penstock.toml`."""

from __future__ import annotations

from penstock.gateway.config.routing import ROUTING
from penstock.gateway.settings import Routing
from penstock.upstream.ejection import EjectionRule
from tests.gateway.config.reading import read


def test_every_setting_can_be_set() -> None:
    assert set(ROUTING) == set(Routing.__struct_fields__)
    text = """
[routing]
affinity = false
prompt_cache_key = false
eject_after = 2
eject_time = "1m"
eject_time_max = 3600
"""
    assert read(text).routing == Routing(
        affinity=False, prompt_cache_key=False, eject_after=2, eject_time=60.0, eject_time_max=3600.0
    )


def test_the_defaults_are_those_of_an_ejection() -> None:
    assert read("").routing.ejection == EjectionRule()


def test_ejection_can_be_turned_off() -> None:
    assert read('[routing]\neject_after = "off"').routing.ejection.after == 0
