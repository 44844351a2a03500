"""Conversations and chains as threads."""

from __future__ import annotations

import json

import pytest

from penstock.inspector import threads
from penstock.inspector.threads import LONGEST_TITLE, title_of
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.inspector.sites import Json, Site, with_site


def up() -> FakeUpstream:
    return FakeUpstream("up", answer("Hello"))


def test_a_chain_is_a_thread_with_its_branches() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(model="m", input="  What is\n an otter? ")
        left, right = [
            await site.ask(model="m", input=text, previous_response_id=first["id"]) for text in ("a", "b")
        ]
        await site.ask(model="m", input="alone")
        (listed,) = (await site.get("threads"))["data"]
        assert (listed["id"], listed["kind"], listed["turns"]) == (first["id"], "chain", 3)
        assert (listed["title"], listed["model"]) == ("What is an otter?", "m")
        for id in (first["id"], left["id"], right["id"]):
            thread = await site.get(f"threads/{id}")
            assert thread["kind"] == "chain"
            links = [(each["id"], each["previous_id"]) for each in thread["turns"]]
            assert links == [(first["id"], None), (left["id"], first["id"]), (right["id"], first["id"])]
            assert thread["turns"][1]["input"][0]["content"][0]["text"] == "a"
            assert thread["turns"][1]["output"][0]["content"][0]["text"] == "Hello"
            assert (thread["is_complete"], thread["missing"]) == (True, [])
        turn = await site.get(f"turns/{first['id']}")
        assert turn["next"] == [left["id"], right["id"]]
        assert (await site.get(f"turns/{left['id']}"))["previous_response_id"] == first["id"]

    with_site(scenario, up())


def test_a_conversation_is_a_thread() -> None:
    async def scenario(site: Site) -> None:
        created = await site.call("/v1/conversations", method="POST", data=b"{}")
        id = created.json["id"]
        empty = await site.get(f"threads/{id}")
        assert (empty["turns"], empty["missing"]) == ([], ["No turn of this conversation is stored."])
        ids = [(await site.ask(model="m", input=text, conversation=id))["id"] for text in ("one", "two")]
        (listed,) = (await site.get("threads"))["data"]
        assert (listed["id"], listed["kind"], listed["turns"], listed["title"]) == (
            id,
            "conversation",
            2,
            "one",
        )
        thread = await site.get(f"threads/{id}")
        assert [each["id"] for each in thread["turns"]] == ids
        assert thread["is_complete"] is True
        assert (await site.get(f"turns/{ids[0]}"))["conversation_id"] == id

    with_site(scenario, up())


def test_the_list_has_pages() -> None:
    async def scenario(site: Site) -> None:
        wanted = []
        for _ in range(5):
            first = await site.ask(model="m", input="x")
            await site.ask(model="m", input="y", previous_response_id=first["id"])
            wanted.append(first["id"])
        found, after = [], ""
        while True:
            page = await site.get(f"threads?limit=2&after={after}")
            found += [each["id"] for each in page["data"]]
            after = page["next"]
            if after is None:
                break
        assert sorted(found) == sorted(wanted)
        assert (await site.get("threads?after=nonsense", status=400))["error"]["param"] == "after"
        assert (await site.get("threads?limit=0", status=400))["error"]["param"] == "limit"

    with_site(scenario, up())


def test_everybody_sees_only_their_own_threads() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(who="anna", model="m", input="mine")
        await site.ask(who="anna", model="m", input="more", previous_response_id=first["id"])
        assert len((await site.get("threads", who="anna"))["data"]) == 1
        assert len((await site.get(f"threads/{first['id']}", who="anna"))["turns"]) == 2
        for who in ("ben", "root"):
            assert (await site.get("threads", who=who))["data"] == []
            foreign = await site.get(f"threads/{first['id']}", who=who, status=404)
            unknown = await site.get("threads/resp_nothing", who=who, status=404)
            assert (
                foreign["error"]["message"].replace(first["id"], "resp_nothing")
                == unknown["error"]["message"]
            )

    with_site(scenario, up(), keys=True)


def test_a_chain_whose_beginning_is_gone_says_so() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(model="m", input="one")
        second = await site.ask(model="m", input="two", previous_response_id=first["id"])
        await site.call(f"/v1/responses/{first['id']}", method="DELETE")
        thread = await site.get(f"threads/{second['id']}")
        assert [each["id"] for each in thread["turns"]] == [second["id"]]
        assert thread["is_complete"] is False
        assert thread["missing"] == [
            "The first of these turns continues a response that is no longer stored."
        ]

    with_site(scenario, up())


def test_a_long_thread_and_a_large_one_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", input="0"))["id"]
        for number in range(1, 4):
            id = (await site.ask(model="m", input=f"{number}", previous_response_id=id))["id"]
        monkeypatch.setattr(threads, "MOST_TURNS", 3)
        thread = await site.get(f"threads/{id}")
        assert len(thread["turns"]) == 3
        assert thread["missing"] == ["These are the newest 3 turns; there may be older ones."]
        monkeypatch.setattr(threads, "MOST_TURNS", 200)
        monkeypatch.setattr(threads, "MOST_BYTES", sum(map(size, thread["turns"][-1:])) + 10)
        thread = await site.get(f"threads/{id}")
        assert [bool(each["input"]) for each in thread["turns"]] == [False, False, False, True]
        assert thread["missing"] == ["The thread is large: the items of its 3 oldest turns are left out."]

    def size(turn: Json) -> int:
        return sum(len(json.dumps(item, separators=(",", ":"))) for item in turn["input"] + turn["output"])

    with_site(scenario, up())


def test_a_running_turn_is_in_its_thread() -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        first = await site.ask(model="demo", input="one")
        caller = site.calling(
            "/v1/responses",
            method="POST",
            model="m",
            input="two",
            stream=True,
            previous_response_id=first["id"],
        )
        await caller.received(b'"delta":"a"')
        thread = await site.get(f"threads/{first['id']}")
        assert [each["status"] for each in thread["turns"]] == ["completed", "in_progress"]
        gate.set()
        await caller.task

    with_site(scenario, upstream)


@pytest.mark.parametrize(
    ("items", "title"),
    [
        ([], ""),
        ([b"{", b"[]", b"1"], ""),
        ([b'{"role":"system","content":"rules"}', b'{"role":"user","content":[{"text":"Hi"}]}'], "Hi"),
        ([b'{"role":"system","content":"rules"}'], "rules"),
        ([b'{"role":"user","content":[{"type":"input_image"}]}'], ""),
        ([b'{"role":"user","content":"%s"}' % (b"x" * 200)], "x" * (LONGEST_TITLE - 1) + "…"),
    ],
)
def test_the_title_is_what_the_user_said_first(items: list[bytes], title: str) -> None:
    assert title_of(items) == title
