"""One turn as the page gets it."""

from __future__ import annotations

from tests.inspector.sites import Site, with_site


def test_a_turn_has_lanes_events_and_explanations() -> None:
    async def scenario(site: Site) -> None:
        response = await site.ask(stream=True)
        turn = await site.get(f"turns/{response['id']}")
        assert turn["status"] == "completed"
        assert turn["sentence"].startswith("The upstream demo completed the response after ")
        assert [lane["type"] for lane in turn["lanes"]] == ["message"]
        assert turn["violations"] == []

    with_site(scenario)
