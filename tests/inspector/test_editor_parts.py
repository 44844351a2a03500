"""The parts of a turn: those of `penstock parts`."""

from __future__ import annotations

import json

import pytest

from penstock.explain.account import Account
from penstock.gateway.http.exchange import Exchange
from penstock.inspector.answers import Abandoned
from penstock.inspector.editor_parts import editor_parts
from tests.cli.running import penstock
from tests.dialects.chat_streams import chunk
from tests.explain.archives import account_of
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import frames
from tests.inspector.sites import Site, with_site
from tests.stored_turns import Turn, log

OPTIONS = {"text": [], "part": ["--host-has-thinking"], "none": ["--no-thinking"]}


@pytest.mark.parametrize("thinking", OPTIONS)
def test_they_are_the_lines_of_the_command(thinking: str) -> None:
    upstream = FakeUpstream("up", [frames(chunk({"reasoning_content": "Hm."}), *text("Hel", "lo"), STOP)])

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        found = await site.get(f"turns/{id}/parts?thinking={thinking}")
        lines = [each["part"] for each in found["parts"]] + [found["result"]]
        stored = await site.get(f"turns/{id}/events?limit=1000")
        stream = "".join(json.dumps(each["event"]) + "\n" for each in stored["data"])
        printed = penstock("parts", *OPTIONS[thinking], "-", stdin=stream.encode()).stdout
        assert lines == [json.loads(line) for line in printed.splitlines()]
        sequences = [each["sequence"] for each in found["parts"]]
        assert sequences == sorted(sequences)
        assert found["error"] is None

    with_site(scenario, upstream)


def test_a_failed_turn_has_an_error() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        found = await site.get(f"turns/{id}/parts")
        assert found["error"]["type"] == "error"
        assert found["result"]["status"] == "failed"

    with_site(scenario, FakeUpstream("up", [frames(*text("Hel"), done=False)]))


def test_a_running_turn_has_parts_and_no_result_yet() -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        caller = site.calling("/v1/responses", method="POST", model="m", input="Hi", stream=True)
        await caller.received(b'"delta":"a"')
        found = await site.get(f"turns/{caller.id}/parts")
        assert [each["part"]["value"] for each in found["parts"]] == ["a"]
        assert (found["result"], found["error"]) == (None, None)
        gate.set()
        await caller.task

    with_site(scenario, upstream)


def test_an_unknown_way_is_refused() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m"))["id"]
        assert (await site.get(f"turns/{id}/parts?thinking=loud", status=400))["error"]["param"] == "thinking"

    with_site(scenario, FakeUpstream("up", answer("Hello")))


def test_the_times_of_a_long_log_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    delta = {"type": "response.output_text.delta", "delta": "x"}
    readings = 0
    original = Account._times

    def counted(self: Account) -> list[float]:
        nonlocal readings
        readings += 1
        return original(self)

    monkeypatch.setattr(Account, "_times", counted)
    account = account_of(Turn("resp_a", events=log(*[(n / 1000, delta) for n in range(1000)])))
    editor_parts(account, "text")
    assert readings == 1


def test_the_rest_is_not_read_for_a_client_that_is_gone() -> None:
    channel = FakeHttpChannel("GET")
    channel.disconnect()
    account = account_of(Turn("resp_a", events=log((0.0, {"type": "response.created"}))))
    with pytest.raises(Abandoned):
        editor_parts(account, "text", Exchange(channel))
