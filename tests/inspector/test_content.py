"""What was said in a turn, and what was sent upstream."""

from __future__ import annotations

import json

import pytest

from penstock.inspector import content
from penstock.inspector.content import own_input
from tests.explain.archives import fallback_turn
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import frames
from tests.inspector.sites import API, Json, Site, with_site


def texts(items: list[Json]) -> list[str]:
    return [part["text"] for item in items for part in item.get("content", [])]


def test_it_has_the_input_the_output_and_both_requests() -> None:
    upstream = FakeUpstream("up", answer("Hello"))

    async def scenario(site: Site) -> None:
        response = await site.ask(model="m", input="Hi", temperature=0.5, max_output_tokens=99)
        found = await site.get(f"turns/{response['id']}/content")
        assert texts(found["input"]) == ["Hi"]
        assert texts(found["output"]) == ["Hello"]
        assert found["request"]["temperature"] == 0.5
        assert "input" not in found["request"]
        (rendered,) = found["rendered"]
        assert (rendered["attempt"], rendered["target"], rendered["dialect"]) == (0, "up", "chat")
        assert rendered["body"]["messages"][-1]["content"] == "Hi"
        kinds = {each["path"]: each["kind"] for each in found["differences"]}
        assert kinds["temperature"] == "same"
        assert kinds["model"] == "changed"
        assert kinds["input → messages"] == "changed"
        assert found["missing"] == []

    with_site(scenario, upstream)


def test_the_input_is_that_of_the_turn_alone() -> None:
    async def scenario(site: Site) -> None:
        first = await site.ask(model="m", input="one")
        second = await site.ask(model="m", input="two", previous_response_id=first["id"])
        both = [message("three"), message("four")]
        third = await site.ask(model="m", input=both, previous_response_id=second["id"])
        wanted = {first["id"]: ["one"], second["id"]: ["two"], third["id"]: ["three", "four"]}
        for id, expected in wanted.items():
            assert texts((await site.get(f"turns/{id}/content"))["input"]) == expected

    def message(text: str) -> Json:
        return {"type": "message", "role": "user", "content": text}

    with_site(scenario, FakeUpstream("up", answer("Hello")))


def test_a_long_input_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MOST_ITEMS", 3)

    async def scenario(site: Site) -> None:
        items = [{"type": "message", "role": "user", "content": f"{n}"} for n in range(5)]
        id = (await site.ask(input=items))["id"]
        found = await site.get(f"turns/{id}/content")
        assert texts(found["input"]) == ["2", "3", "4"]
        assert found["missing"] == ["The input is long: these are its last 3 items."]

    with_site(scenario)


def test_more_items_than_a_page_are_read() -> None:
    async def scenario(site: Site) -> None:
        items = [{"type": "message", "role": "user", "content": f"{n}"} for n in range(450)]
        id = (await site.ask(input=items))["id"]
        stored = await site.gateway.store.get("local", id)
        assert stored is not None
        found, has_all = await own_input(site.gateway.store, stored)
        assert has_all
        assert [json.loads(item.data)["content"][0]["text"] for item in found] == [f"{n}" for n in range(450)]

    with_site(scenario)


def test_a_running_turn_has_its_output_so_far() -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        caller = site.calling("/v1/responses", method="POST", model="m", input="Hi", stream=True)
        await caller.received(b'"delta":"a"')
        assert texts((await site.get(f"turns/{caller.id}/content"))["output"]) == ["a"]
        gate.set()
        await caller.task

    with_site(scenario, upstream)


def test_every_attempt_has_its_request() -> None:
    async def scenario(site: Site) -> None:
        await site.keep(fallback_turn())
        found = await site.get("turns/resp_a/content")
        assert [each["target"] for each in found["rendered"]] == ["first", "second"]

    with_site(scenario)


def test_ten_megabytes_of_output_are_sent() -> None:
    long = "<b>" + "x" * (10 * 1024 * 1024)
    upstream = FakeUpstream("up", [frames(*text(long), STOP)])

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m"))["id"]
        caller = await site.call(f"{API}/turns/{id}/content")
        assert caller.status == 200
        assert int(caller.headers["content-length"]) == len(caller.body)
        assert texts(caller.json["output"]) == [long]
        assert len(caller.sent) > 10  # in pieces
        head = await site.call(f"{API}/turns/{id}/content", method="HEAD")
        assert (head.body, head.headers["content-length"]) == (b"", caller.headers["content-length"])

    with_site(scenario, upstream)


def test_a_body_that_was_too_long_to_keep_says_so() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", input="y" * (1024 * 1024 + 1)))["id"]
        (rendered,) = (await site.get(f"turns/{id}/content"))["rendered"]
        assert rendered["body"] is None
        assert "--record" in rendered["note"]

    with_site(scenario, FakeUpstream("up", answer("Hello")))
