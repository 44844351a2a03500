"""The models file of `llm`: only our entries change."""

from __future__ import annotations

import pytest

from penstock.connect.llm_models import llm_settings, with_llm_models
from penstock.errors import ConfigError
from tests.connect.gateways import connected

MINE = "# mine\n- model_id: mine # best\n  model_name: mine\n"


def test_entries_are_added_replaced_and_otherwise_kept() -> None:
    once = with_llm_models(MINE.encode(), connected("a", "a", "b"), "f").decode()
    assert once == MINE + llm_settings(connected("a", "a", "b"))
    assert with_llm_models(once.encode(), connected("a", "a", "b"), "f").decode() == once
    assert with_llm_models(once.encode(), connected("c"), "f").decode() == MINE + llm_settings(connected("c"))


def test_a_gateway_with_keys_names_the_stored_key() -> None:
    assert "api_key_name: penstock" in llm_settings(connected(key_variable="K"))
    assert "api_key_name" not in llm_settings(connected())


@pytest.mark.parametrize(
    ("before", "message"),
    [(MINE, "already has entries for mine"), ("models: [1]\n", "plain list"), ("\xff", "UTF-8")],
)
def test_a_file_that_cannot_be_changed_safely_is_refused(before: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_llm_models(before.encode("latin-1"), connected("mine"), "f")
