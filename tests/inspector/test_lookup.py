"""Who sees which turns: the same rules on every route of the API."""

from __future__ import annotations

import pytest

from penstock.store.ledger import TurnRecord
from tests.inspector.sites import API, TOKENS, Site, with_site

CONTENT_ROUTES = (("content", "GET"), ("events", "GET"), ("parts", "GET"), ("replay", "POST"))
SECRET = "planted-in-the-prompt"


def test_a_client_sees_its_own_turns_and_no_others() -> None:
    async def scenario(site: Site) -> None:
        mine = (await site.ask(who="anna", input=SECRET))["id"]
        turn = await site.get(f"turns/{mine}", who="anna")
        assert (turn["tenant"], turn["has_content"]) == ("anna", True)
        foreign = await site.get(f"turns/{mine}", who="ben", status=404)
        unknown = await site.get("turns/resp_nothing", who="ben", status=404)
        assert foreign["error"]["message"].replace(mine, "resp_nothing") == unknown["error"]["message"]
        for path, method in CONTENT_ROUTES:
            for who, status in {"ben": 404, "root": 403, "": 401}.items():
                caller = await site.call(f"{API}/turns/{mine}/{path}", who=who, method=method)
                assert (path, who, caller.status) == (path, who, status)
                assert SECRET.encode() not in caller.body

    with_site(scenario, keys=True)


def test_an_administrator_sees_the_record_of_every_turn_without_content() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(who="anna", input=SECRET))["id"]
        caller = await site.call(f"{API}/turns/{id}", who="root")
        turn = caller.json
        assert (turn["tenant"], turn["has_content"], turn["is_stored"]) == ("anna", False, False)
        assert turn["record"]["id"] == id
        assert turn["events"]["sequence"] == []
        assert turn["missing"][0].startswith("This turn belongs to the key anna")
        assert turn["can_replay"] is False
        assert SECRET.encode() not in caller.body
        own = (await site.ask(who="root"))["id"]
        assert (await site.get(f"turns/{own}", who="root"))["has_content"] is True

    with_site(scenario, keys=True)


def test_without_keys_everything_is_local() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask())["id"]
        assert (await site.get(f"turns/{id}"))["has_content"] is True
        session = await site.get("session")
        assert (session["tenant"], session["is_administrator"], session["needs_key"]) == (
            "local",
            True,
            False,
        )

    with_site(scenario)


def test_a_turn_that_is_not_stored_has_its_record() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(who="anna", store=False))["id"]
        turn = await site.get(f"turns/{id}", who="anna")
        assert (turn["is_stored"], turn["has_content"]) == (False, False)
        (missing,) = turn["missing"]
        assert missing.startswith('The request said "store": false, or it was a compaction')
        assert turn["usage"]["output_tokens"] == turn["record"]["output_tokens"] > 0
        for path, method in CONTENT_ROUTES:
            caller = await site.call(f"{API}/turns/{id}/{path}", who="anna", method=method)
            assert caller.status == 404
        assert (await site.call(f"{API}/turns/{id}", who="ben")).status == 404

    with_site(scenario, keys=True)


def test_a_deleted_turn_has_its_record() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask())["id"]
        assert (await site.call(f"/v1/responses/{id}", method="DELETE")).status == 200
        turn = await site.get(f"turns/{id}")
        assert turn["missing"][0].startswith("The response is no longer in the store")

    with_site(scenario)


@pytest.mark.parametrize("among", [50, 1500])
def test_a_turn_is_found_among_others_that_mention_its_id(among: int) -> None:
    async def scenario(site: Site) -> None:
        store, now = site.gateway.store, site.gateway.clock()
        wanted = TurnRecord(id="resp_wanted", tenant="anna", started_at=now - 1000)
        await store.admit(wanted)
        for number in range(among):
            other = TurnRecord(
                id=f"resp_{number}", tenant="anna", started_at=now - number, request_id="resp_wanted"
            )
            await store.admit(other)
        assert (await site.get("turns/resp_wanted", who="anna"))["id"] == "resp_wanted"
        assert (await site.get("turns/resp_wanted", who="root"))["id"] == "resp_wanted"
        assert (await site.get("turns/resp_wanted", who="ben", status=404))["error"]
        assert (await site.get("turns/resp_want", who="anna", status=404))["error"]

    with_site(scenario, keys=True)


def test_keys_are_never_in_an_answer() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(who="anna"))["id"]
        for path in ("session", f"turns/{id}", f"turns/{id}/content", f"turns/{id}/events", "connect"):
            caller = await site.call(f"{API}/{path}", who="anna")
            assert caller.status == 200
            assert TOKENS["anna"].encode() not in caller.body

    with_site(scenario, keys=True)
