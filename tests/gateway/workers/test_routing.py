"""Routing with real processes: two workers, several targets and keys, and a target that is down."""

from __future__ import annotations

import socket
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.client.server import Asked, Script, Server, in_a_thread
from tests.gateway.probes import has_logged, wait_for
from tests.gateway.running import Json, Running, gateway
from tests.gateway.telemetry.prometheus import parse
from tests.gateway.upstream import said, streamed
from tests.gateway.workers.processes import answered_by

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

TWO = ("--workers", "2")
KEYS = {"KEY_1": "sk-one-123456789", "KEY_2": "sk-two-123456789"}

TARGET = """
[targets.{name}]
base_url = "{url}/v1"
keys = ["KEY_1", "KEY_2"]
"""
GROUP = '[models.m]\ntargets = [["one", "two"]]\n'


class Helpful(Server):
    """Answers everything."""

    def script_for(self, asked: Asked) -> Script:
        del asked
        return streamed(*said("ok"))


@contextmanager
def targets(folder: Path, *names: str, more: str = GROUP) -> Iterator[tuple[Running, dict[str, Server]]]:
    """Run two workers in front of these targets."""
    with ExitStack() as stack:
        servers: dict[str, Server] = {name: Helpful() for name in names}
        for server in servers.values():
            stack.enter_context(in_a_thread(server))
        config = "".join(TARGET.format(name=name, url=server.url) for name, server in servers.items())
        running = gateway(folder, *TWO, config=config + more, environment=KEYS)
        yield stack.enter_context(running), servers


def turns_at(server: Server) -> list[Asked]:
    """Return the requests of turns. A gateway also asks for the list of models."""
    return [asked for asked in server.asked if asked.method == "POST"]


def places(servers: dict[str, Server]) -> dict[str, list[str]]:
    """Return where the turns of each conversation were sent to: targets with keys. A conversation is known
    by its first message."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, server in servers.items():
        for asked in turns_at(server):
            key = asked.headers["authorization"].removeprefix("Bearer ")
            found[asked.json["messages"][0]["content"]].append(f"{name} {key}")
    return found


def chained(running: Running, number: int) -> None:
    previous: Json = {}
    for _ in range(3):
        reply = running.whole("m", f"Question {number}", **previous)
        previous = {"previous_response_id": reply.json["id"]}


def whole_history(running: Running, number: int) -> None:
    history: list[Json] = []
    for _ in range(3):
        history.append({"role": "user", "content": f"Question {number}"})
        reply = running.ask({"model": "m", "input": history, "store": False})
        history += reply.json["output"]


def test_a_conversation_keeps_its_key_and_target_on_every_worker_and_after_a_restart(tmp_path: Path) -> None:
    with targets(tmp_path, "one", "two") as (running, servers):
        for number in range(16):
            (chained if number % 2 else whole_history)(running, number)
        found = places(servers)
        assert answered_by(running) == {1, 2}
        assert {len(each) for each in found.values()} == {3}
        assert {len(set(each)) for each in found.values()} == {1}
        assert len({each[0] for each in found.values()}) == 4, "all keys of all targets are used"
        text = (tmp_path / "penstock.toml").read_text()
        assert running.stop() == 0
        with gateway(tmp_path, *TWO, config=text, environment=KEYS) as restarted:
            for number in range(16):
                chained(restarted, number)
        again = places(servers)
        assert {len(each) for each in again.values()} == {6}
        assert {len(set(each)) for each in again.values()} == {1}


def test_a_new_target_takes_only_its_share(tmp_path: Path) -> None:
    """The configuration is changed while the gateway runs."""
    with targets(tmp_path, "one", "two", "three", more=GROUP) as (running, servers):
        for number in range(40):
            running.whole("m", f"Question {number}")
        before = {asked: each[0] for asked, each in places(servers).items()}
        assert not turns_at(servers["three"])
        file = tmp_path / "penstock.toml"
        file.write_text(file.read_text().replace('["one", "two"]', '["one", "two", "three"]'))
        wait_for(lambda: has_logged(running, "the settings were reloaded"))
        for server in servers.values():
            server.asked.clear()
        for number in range(40):
            running.whole("m", f"Question {number}")
        after = {asked: each[0] for asked, each in places(servers).items()}
        moved = {asked for asked, place in after.items() if place != before[asked]}
        assert 4 <= len(moved) <= 24
        assert all(after[asked].startswith("three ") for asked in moved)


def test_weights_decide_how_many_conversations_a_target_gets(tmp_path: Path) -> None:
    more = '[models.m]\ntargets = [[{ target = "one", weight = 4 }, "two"]]\n'
    with targets(tmp_path, "one", "two", more=more) as (running, servers):
        for number in range(60):
            running.whole("m", f"Question {number}")
        one, two = (len(turns_at(server)) for server in servers.values())
        assert one + two == 60
        assert 6 <= two <= 20


def test_a_target_that_is_down_is_left_out_and_comes_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    more = TARGET.format(name="down", url=f"http://127.0.0.1:{port}")
    more += '[models.m]\ntargets = ["down", "one"]\n'
    more += (
        '[limits]\nretries = 0\n[routing]\neject_after = 3\neject_time = "500ms"\neject_time_max = "500ms"\n'
    )
    with targets(tmp_path, "one", more=more) as (running, servers):
        replies = []
        while not ejected_workers(running) >= {1, 2}:
            replies.append(running.stream("m"))
            assert len(replies) < 200
        assert {reply.text for reply in replies} == {"ok"}
        assert {line["last_error"] for line in lines(running, "ejected")} == {"upstream_unreachable"}
        assert gauge(running) >= 1
        assert len(turns_at(servers["one"])) == len(replies)
        with in_a_thread(Helpful(port=port)) as back:
            while {line["worker"] for line in lines(running, "back")} != {1, 2}:
                assert running.stream("m").text == "ok"
            assert gauge(running) == 0
            asked, answered = len(turns_at(servers["one"])), len(turns_at(back.server))
            for _ in range(10):
                reply = running.stream("m")
                assert reply.last.get("diagnostics") is None
            assert len(turns_at(servers["one"])) == asked
            assert len(turns_at(back.server)) == answered + 10


def lines(running: Running, code: str) -> list[Json]:
    return [line for line in running.log if line.get("event") == "target" and line["code"] == code]


def ejected_workers(running: Running) -> set[int]:
    return {line["worker"] for line in lines(running, "ejected")}


def gauge(running: Running) -> float:
    text = running.ask(path="/metrics", method="GET").body
    return sum(value for (name, _), value in parse(text).items() if name == "penstock_targets_ejected")
