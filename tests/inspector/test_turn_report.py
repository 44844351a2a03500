"""One turn as the page gets it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from penstock.errors import NetworkError
from penstock.explain.account import read_account
from penstock.explain.report import report
from penstock.store import open_archive
from penstock.store.ledger import TurnFilter, TurnRecord
from penstock.store.records import LOCAL
from tests.explain.archives import fallback_turn
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import frames
from tests.inspector.sites import API, Site, with_site
from tests.stored_turns import Turn, log

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m[x](javascript:alert(1))\"'`\u2028"


def test_a_turn_has_lanes_reads_and_attempts_on_one_axis() -> None:
    async def scenario(site: Site) -> None:
        await site.keep(fallback_turn())
        turn = await site.get("turns/resp_a")
        assert [(lane["type"], lane["name"], lane["status"]) for lane in turn["lanes"]] == [
            ("message", "", "completed"),
            ("function_call", "look_up", "completed"),
        ]
        assert [(lane["added_ms"], lane["done_ms"]) for lane in turn["lanes"]] == [(600, 1850), (1850, 2600)]
        assert turn["reads"] == {"at_ms": [600, 1800, 1900], "size": [1000, 2000, 400], "attempt": [1, 1, 1]}
        first, second = turn["attempts"]
        assert (first["target"], first["status"], first["code"]) == ("first", 429, "rate_limit_exceeded")
        assert (first["sent_ms"], first["answered_ms"], first["ended_ms"]) == (0, None, 200)
        assert (second["sent_ms"], second["answered_ms"], second["ended_ms"]) == (300, 500, 2600)
        assert turn["events"]["at_ms"][-1] == 2600
        assert turn["previous_response_id"] is None

    with_site(scenario)


def test_it_says_who_broke_the_stream() -> None:
    upstream = FakeUpstream("up", [frames(*text("Hel"), done=False), NetworkError("cut", phase="body")])

    async def scenario(site: Site) -> None:
        response = await site.ask(model="m", stream=True)
        turn = await site.get(f"turns/{response['id']}")
        assert turn["status"] == "failed"
        assert turn["sentence"].startswith("The upstream up ")
        assert turn["sentence"].endswith("The client received `response.failed`.")
        assert turn["violations"] == []

    with_site(scenario, upstream)


def test_a_refused_turn_says_why_there_is_nothing_else() -> None:
    async def scenario(site: Site) -> None:
        await site.call("/v1/responses", method="POST", input="fail with 429", stream=True)
        (record,) = (await site.call("/v1/turns")).json["data"]
        turn = await site.get(f"turns/{record['id']}")
        assert turn["status"] == "refused"
        assert turn["sentence"].endswith("The client received HTTP 429.")
        assert not [each for each in turn["sentences"] if "deleted" in each or "no longer" in each]
        assert "The request was refused" in turn["sentences"][-1]
        assert turn["missing"] == [
            "The turn was refused before its response began, so nothing of it was stored."
        ]

    with_site(scenario)


def test_a_running_turn_grows() -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        caller = site.calling("/v1/responses", method="POST", model="m", input="Hi", stream=True)
        await caller.received(b'"delta":"a"')
        turn = await site.get(f"turns/{caller.id}")
        assert turn["is_running"] is True
        assert turn["end"] is None
        assert turn["sentence"] == "The turn is still running."
        assert turn["lanes"][0]["done_ms"] is None
        seen = turn["events"]["sequence"][-1]
        gate.set()
        await caller.task
        later = await site.get(f"turns/{caller.id}?events_after={seen}")
        assert later["events"]["sequence"][0] == seen + 1
        assert later["lanes"][0]["done_ms"] is not None
        assert later["end"] > later["begin"]

    with_site(scenario, upstream)


def test_the_numbers_are_those_of_explain(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"

    async def scenario(site: Site) -> None:
        for body in ({"stream": True}, {"input": "fail"}, {"store": False}, {"input": "think hard"}):
            response = await site.ask(**body)
            await site.gateway.store.stats()  # what is read next is written
            turn = await site.get(f"turns/{response['id']}")
            with open_archive(str(file)) as archive:
                record = archive.turns(TurnFilter(search=response["id"]), limit=1).turns[0]
                account = read_account(archive, response["id"], record)
            assert account is not None
            explained = json.loads(msgspec.json.encode(report(account, {})))
            for name in ("id", "tenant", "status", "sentences", "usage", "diagnostics", "verdict"):
                assert turn[name] == explained[name], name
            assert turn["record"] == explained["ledger"]
            steps = [{"at": each["at"], "what": each["what"]} for each in turn["steps"]]
            assert steps == explained["timeline"]

    with_site(scenario, file=file)


def test_a_turn_of_another_key_does_not_look_deleted_to_an_administrator() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(who="anna"))["id"]
        turn = await site.get(f"turns/{id}", who="root")
        assert turn["missing"][0].startswith("This turn belongs to the key anna")
        assert not [each for each in turn["sentences"] if "the store" in each]

    with_site(scenario, keys=True)


def test_the_upstreams_own_message_is_for_the_key_of_the_turn() -> None:
    error = {"error": {"message": "planted: the model is resting", "type": "server_error"}}
    upstream = FakeUpstream("up", [frames(*text("Hel"), error, done=False)])

    async def scenario(site: Site) -> None:
        id = (await site.ask(who="anna", model="m", stream=True))["id"]
        turn = await site.get(f"turns/{id}", who="anna")
        assert "planted" in turn["attempts"][-1]["message"]
        assert "planted" not in turn["sentence"]
        hidden = await site.call(f"{API}/turns/{id}", who="root")
        assert hidden.status == 200
        assert b"planted" not in hidden.body

    with_site(scenario, upstream, keys=True)


def test_attempts_and_heartbeats_are_known_without_traces() -> None:
    verdict = {"tried": ["first: server_error"], "attempts": 2, "retry_after": 7.0, "heartbeats": 3}
    events = log((0.0, {"type": "response.created"}), (1.0, {"type": "response.failed"}))

    async def scenario(site: Site) -> None:
        await site.keep(Turn("resp_b", status="failed", events=events, verdict=verdict))
        turn = await site.get("turns/resp_b")
        assert (turn["tried"], turn["retry_after"]) == (["first: server_error"], 7.0)
        assert turn["heartbeats"] == {"at_ms": [], "count": 3}
        assert "the last of 2 attempts" in turn["sentence"]
        assert (turn["request_at"], turn["request_ms"]) == (None, None)

    with_site(scenario)


def test_the_request_is_before_the_first_time() -> None:
    async def scenario(site: Site) -> None:
        for store in (True, False):
            id = (await site.ask(stream=True, store=store))["id"]
            turn = await site.get(f"turns/{id}")
            assert turn["request_at"] <= turn["record"]["started_at"]
            assert turn["request_ms"] == pytest.approx((turn["request_at"] - turn["begin"]) * 1000, abs=0.01)
            assert turn["request_ms"] <= 0

    with_site(scenario)


def test_times_count_from_the_request_as_the_durations_do() -> None:
    """The record begins when a turn is prepared: for the first turn of a process, that is much later."""
    record = TurnRecord(
        id="resp_a", tenant=LOCAL, started_at=1030.0, ended_at=1032.0, outcome="completed", duration_ms=2500
    )
    cases = {1032.0: 1029.5, 1032.6: 1030.0, 1031.0: 1028.5, 900.0: 1030.0, 5000.0: 1030.0}

    async def scenario(site: Site) -> None:
        for ended_at, request_at in cases.items():
            each = replace(record, id=f"resp_{ended_at}", ended_at=ended_at)
            await site.gateway.store.admit(each)
            site.gateway.store.settle_turn(each)
            turn = await site.get(f"turns/{each.id}")
            assert (ended_at, turn["request_at"]) == (ended_at, request_at)

    with_site(scenario)


def test_an_upstream_that_reports_an_error_failed_where_it_was_read_last() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(input="Answer with 20 words, and fail in the middle.", stream=True))["id"]
        turn = await site.get(f"turns/{id}")
        (attempt,) = turn["attempts"]
        assert attempt["code"] == "server_error"
        assert attempt["ended_ms"] == turn["reads"]["at_ms"][-1]

    with_site(scenario)


def test_a_running_turn_in_the_background_is_in_progress() -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", background=True))["id"]
        for _ in range(1000):
            turn = await site.get(f"turns/{id}")
            if turn["status"] != "queued":
                break
            await asyncio.sleep(0)
        assert turn["status"] == (await site.call(f"/v1/responses/{id}")).json["status"] == "in_progress"
        gate.set()

    with_site(scenario, upstream)


def test_a_broken_rule_is_named() -> None:
    message = {"type": "message", "id": "msg_1", "content": [], "role": "assistant"}
    events = log(
        (0.0, {"type": "response.created", "response": {}}),
        (0.1, {"type": "response.output_item.added", "output_index": 0, "item": message}),
        (0.2, {"type": "response.output_item.added", "output_index": 0, "item": message}),
    )

    async def scenario(site: Site) -> None:
        await site.keep(Turn("resp_b", events=events))
        turn = await site.get("turns/resp_b")
        rules = {each["rule"]: each for each in turn["violations"]}
        assert rules["terminal.missing"]["sequence"] is None
        assert rules["terminal.missing"]["title"]
        doubled = [each for each in turn["violations"] if each["sequence"] == 2]
        assert doubled

    with_site(scenario)


def test_broken_rows_are_shown_as_far_as_they_can_be_read() -> None:
    turn = fallback_turn()
    turn.opened = msgspec.structs.replace(turn.opened, request=b"{", response=b"{")
    turn.closed = msgspec.structs.replace(turn.closed, response=b"\xff", verdict=b"[1]")
    turn.events = [msgspec.structs.replace(each, data=b"{broken") for each in turn.events]
    turn.traces = [msgspec.structs.replace(each, data=b"\x00") for each in turn.traces]

    async def scenario(site: Site) -> None:
        await site.keep(turn)
        found = await site.get("turns/resp_a")
        assert found["events"]["types"] == ["(unreadable)"]
        assert found["violations"][0]["rule"] == "transport.json"
        content = await site.get("turns/resp_a/content")
        assert content["output"] == []
        assert "The stored response cannot be read." in content["missing"]
        events = await site.get("turns/resp_a/events")
        assert events["data"][0]["event"] is None
        assert (await site.get("turns/resp_a/parts"))["skipped"] == len(turn.events)

    with_site(scenario)


DEEP = b'{"request_id":"","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("UPDATE events SET data = x'00ff1234'", "The events cannot be read"),
        ("UPDATE events SET data = x''", "The events cannot be read"),
        ("UPDATE events SET data = x'01ff'", "The events cannot be read"),
        ("UPDATE traces SET data = x'00ff1234'", "The traffic with the upstream cannot be read"),
        ("UPDATE responses SET response = ?", ""),
        ("UPDATE responses SET verdict = ?", ""),
    ],
)
def test_damaged_rows_of_the_file_are_missing(change: str, missing: str, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        await site.gateway.store.stats()  # what is damaged next is written
        with sqlite3.connect(path) as file:
            assert file.execute(change, [DEEP] * change.count("?")).rowcount
        file.close()
        turn = await site.get(f"turns/{id}")
        assert [each for each in turn["missing"] if missing and each.startswith(missing)] or not missing
        for name in ("content", "events", "parts"):
            await site.get(f"turns/{id}/{name}")
        caller = await site.call(f"{API}/turns/{id}/replay", method="POST")
        assert caller.status in (200, 409)

    with_site(scenario, FakeUpstream("up", answer("Hello")), file=path, record=True)


def test_deeply_nested_events_and_traces_are_unreadable() -> None:
    turn = fallback_turn()
    turn.events = [msgspec.structs.replace(each, data=DEEP) for each in turn.events]
    turn.traces = [msgspec.structs.replace(each, data=DEEP) for each in turn.traces]

    async def scenario(site: Site) -> None:
        await site.keep(turn)
        for name in ("", "/content", "/events", "/parts"):
            await site.get(f"turns/resp_a{name}")

    with_site(scenario)


def test_hostile_text_is_data() -> None:
    upstream = FakeUpstream("up", [frames(*text(HOSTILE), STOP)])

    async def scenario(site: Site) -> None:
        response = await site.ask(model="m", stream=True, input=HOSTILE)
        for path in ("", "/content", "/events", "/parts"):
            caller = await site.call(f"/inspector/api/turns/{response['id']}{path}")
            assert caller.headers["content-type"] == "application/json"
            assert caller.headers["x-content-type-options"] == "nosniff"
            assert caller.headers["cache-control"] == "no-store"
        content = await site.get(f"turns/{response['id']}/content")
        assert content["output"][0]["content"][0]["text"] == HOSTILE
        assert content["input"][0]["content"][0]["text"] == HOSTILE

    with_site(scenario, upstream)


def test_a_turn_of_20000_events_is_complete() -> None:
    events = log(*[(n / 1000, {"type": "response.output_text.delta", "delta": "x"}) for n in range(20_000)])

    async def scenario(site: Site) -> None:
        await site.keep(Turn("resp_long", events=events))
        turn = await site.get("turns/resp_long")
        assert turn["events"]["sequence"] == list(range(20_000))
        assert turn["events"]["next"] is None
        page = await site.get("turns/resp_long/events?after=19997&limit=1000")
        assert [each["sequence_number"] for each in page["data"]] == [19998, 19999]
        assert page["has_more"] is False

    with_site(scenario)
