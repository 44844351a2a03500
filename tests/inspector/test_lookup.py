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


def test_no_parameter_of_any_route_shows_another_keys_turns() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(who="anna", input=SECRET)
        mine = await site.ask(who="anna", input="more", previous_response_id=first["id"])
        opened = await site.call("/v1/conversations", who="anna", method="POST", items=[])
        talk = opened.json["id"]
        await site.ask(who="anna", input=SECRET, conversation=talk)
        (newest, *_) = (await site.call("/v1/turns", who="anna")).json["data"]
        position = f"{newest['started_at'] + 1!r}_{newest['id']}"
        known = [SECRET, first["id"], mine["id"], talk, newest["request_id"]]
        queries = (
            *(
                f"/v1/turns?{name}={value}"
                for value in known
                for name in ("search", "model", "target", "outcome")
            ),
            *(f"/v1/turns?after={place}" for place in (position, f"9e9_{first['id']}")),
            *(
                f"{API}/dashboard?by={by}&search={first['id']}"
                for by in ("model", "key", "target", "outcome")
            ),
            *(f"{API}/dashboard?by={by}" for by in ("model", "key", "target", "outcome")),
            f"{API}/threads",
            *(f"{API}/threads?after={place}" for place in (position, first["id"])),
            *(f"{API}/threads/{id}" for id in (first["id"], mine["id"], talk)),
            *(f"{API}/turns/{id}?events_after=0" for id in (first["id"], mine["id"], newest["id"])),
            *(f"/v1/usage?by={by}" for by in ("model", "key")),
        )
        for query in queries:
            caller = await site.call(query, who="ben")
            shown = caller.json
            echoed = caller.body.count(b"there is no") > 0  # the id that was asked for
            assert not shown.get("data"), query
            assert shown.get("totals", {}).get("turns", 0) == 0, query
            assert echoed or not [each for each in known if each.encode() in caller.body], query
            assert b"anna" not in caller.body, query
        for query in ("/v1/turns?key=anna", f"{API}/dashboard?key=anna", "/v1/usage?key=anna"):
            assert (await site.call(query, who="ben")).status == 403

    with_site(scenario, keys=True)


def test_an_administrator_sees_no_titles_and_no_threads_of_others() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(who="anna", input=SECRET)
        await site.ask(who="anna", input="more", previous_response_id=first["id"])
        assert (await site.get("threads", who="root"))["data"] == []
        assert (await site.get(f"threads/{first['id']}", who="root", status=404))["error"]
        turn = await site.call(f"{API}/turns/{first['id']}", who="root")
        assert (turn.json["next"], turn.json["previous_response_id"]) == ([], None)

    with_site(scenario, keys=True)
