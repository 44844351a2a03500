"""The checker's table of rules in the inspector's API."""

from __future__ import annotations

from penstock.inspector.rules import GROUPS
from penstock.stream.checker import RULES
from tests.inspector.sites import Site, with_site


def test_every_rule_is_listed_with_what_to_do() -> None:
    async def scenario(site: Site) -> None:
        rules = {each["id"]: each for each in (await site.get("rules"))["rules"]}
        assert rules.keys() == RULES.keys()
        twice = rules["call.duplicate"]
        assert twice["title"] == RULES["call.duplicate"].title
        assert "Codex and the AI SDK run the tool twice" in twice["breaks"]
        assert "Ask B4" in twice["explanation"]
        assert twice["group"] == "Tool calls"
        assert twice["is_tolerated"] is False
        assert rules["part.done-missing"]["is_tolerated"] is True
        assert all(each["advice"] for each in rules.values())

    with_site(scenario)


def test_the_advice_is_about_groups_that_exist() -> None:
    assert GROUPS.keys() == {rule.partition(".")[0] for rule in RULES}
