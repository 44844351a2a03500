"""Check a restarted gateway against what the killed one had reported."""

from __future__ import annotations

import http.client
import json
import random
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from penstock.stream.checker import StreamChecker
from penstock.stream.recovery import RESTARTED
from tests.e2e.load_clients import Ledger
from tests.gateway.running import Json, Running

ENDED = ("completed", "failed", "incomplete", "cancelled")


class Check:
    """Checks of a restarted gateway. `interrupted` counts the turns that the kill interrupted."""

    def __init__(self, running: Running, ledger: Ledger) -> None:
        self._connection = running.connect()
        self._ledger = ledger
        self.interrupted = 0

    def close(self) -> None:
        self._connection.close()

    def everything(self, ids: Iterable[str]) -> None:
        ledger = self._ledger
        for id in ids:
            if id in ledger.deleted:
                assert self._get(f"/v1/responses/{id}")[0] == 404, "a deleted response exists again"
            elif id in ledger.unsure:
                assert self._get(f"/v1/responses/{id}")[0] in (200, 404)
            elif id in ledger.ended:
                self.has_reported_end(id)
            else:
                self.has_ended(id)

    def has_reported_end(self, id: str) -> None:
        """Check a response whose end was reported: it is stored byte for byte as reported."""
        status, body = self._get(f"/v1/responses/{id}")
        assert status == 200, "an end that was reported is lost"
        assert body == self._ledger.ended[id]
        log = self.stream(id)
        assert violations(log) == []
        if received := self._ledger.received[id]:
            assert log == received
        self._has_its_input(id)

    def has_ended(self, id: str) -> None:
        """Check a response that was reported to exist: it has ended, also for clients that reconnect."""
        status, body = self._get(f"/v1/responses/{id}")
        received = self._ledger.received[id]
        if status == 404 and received and b'"store_late"' in received[0]:
            return  # the diagnostic warned the client
        assert status == 200, "a response that was reported to exist is missing"
        response = json.loads(body)
        assert response["status"] in ENDED
        log = self.stream(id)
        assert json.loads(log[-1])["response"]["status"] == response["status"].replace(
            "cancelled", "incomplete"
        )
        if (response["error"] or {}).get("code") == RESTARTED:
            self.interrupted += 1
            assert violations(log) == []
            # The received events, as far as they were stored; after them, only events that close items.
            assert all(_is_end(data) for data in log[_common(log, received) : len(received)])
            self._can_be_resumed(id, len(received) - 1)
        else:
            assert violations(log) == []
            assert received == log[: len(received)]
        self._has_its_input(id)

    def conversation(self, id: str) -> None:
        """Check that acknowledged items are stored once, in order. Others may be stored too."""
        found: list[str] = []
        has_more = True
        while has_more:
            query = f"&after={found[-1]}" if found else ""
            status, body = self._get(f"/v1/conversations/{id}/items?order=asc&limit=100{query}")
            assert status == 200
            found += [item["id"] for item in json.loads(body)["data"]]
            has_more = json.loads(body)["has_more"]
        assert len(found) == len(set(found))
        acknowledged = self._ledger.conversations[id]
        assert [item for item in found if item in set(acknowledged)] == acknowledged

    def stream(self, id: str, after: int | None = None) -> list[bytes]:
        query = "" if after is None else f"&starting_after={after}"
        status, body = self._get(f"/v1/responses/{id}?stream=true{query}")
        assert status == 200
        decoder = Decoder()
        frames = [frame.data.encode() for frame in decoder.feed(body) + decoder.end()]
        assert frames.pop() == b"[DONE]"
        return frames

    def _can_be_resumed(self, id: str, after: int) -> None:
        """Check that a client that resumes after its last event gets the end, once."""
        if after < 0:
            return
        events = [json.loads(data) for data in self.stream(id, after)]
        assert events, "a client that had received more than is stored does not get the end"
        assert [event["sequence_number"] for event in events] == list(
            range(after + 1, after + 1 + len(events))
        )
        assert [event["type"] for event in events if event["type"] in TERMINAL] == ["response.failed"]
        assert events[-1]["type"] == "response.failed"

    def _has_its_input(self, id: str) -> None:
        status, body = self._get(f"/v1/responses/{id}/input_items?limit=1")
        assert status == 200
        assert [item["id"] for item in json.loads(body)["data"]] == [self._ledger.brought[id]]

    def can_be_continued(self, id: str) -> None:
        """Check that a turn can follow it, unless an earlier turn of its chain was deleted."""
        body = {"model": "quick", "input": "and then?", "previous_response_id": id}
        self._connection.request(
            "POST", "/v1/responses", json.dumps(body), {"content-type": "application/json"}
        )
        status, answer = self._read()
        if self._has_whole_chain(id):
            assert (status, json.loads(answer)["status"]) == (200, "completed")
        else:
            assert (status, json.loads(answer)["error"]["code"]) == (400, "previous_response_not_found")

    def _has_whole_chain(self, id: str | None) -> bool:
        """Return whether the whole chain of a response is stored."""
        while id is not None:
            status, body = self._get(f"/v1/responses/{id}")
            if status == 404:
                return False
            id = json.loads(body)["previous_response_id"]
        return True

    def _get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path)
        return self._read()

    def _read(self) -> tuple[int, bytes]:
        answer: http.client.HTTPResponse = self._connection.getresponse()
        return answer.status, answer.read()


def violations(log: list[bytes]) -> list[str]:
    checker = StreamChecker()
    found = [each for data in log for each in checker.feed_frame(_type_of(data), data.decode())]
    found += [*checker.feed_frame(None, "[DONE]"), *checker.end()]
    return [str(each) for each in found]


def _common(log: list[bytes], received: list[bytes]) -> int:
    """Return how many first events of two logs are equal, without `store_late`: that diagnostic means
    that the response was not stored yet, and now it is."""
    pairs = enumerate(zip(map(_without_late, log), map(_without_late, received), strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(log), len(received)))


def _without_late(data: bytes) -> Json:
    event: Json = json.loads(data)
    diagnostics = event.get("response", {}).pop("diagnostics", [])
    return {**event, "diagnostics": [each for each in diagnostics if each["code"] != "store_late"]}


def _is_end(data: bytes) -> bool:
    return _type_of(data).endswith((".done", ".failed"))


def _type_of(data: bytes) -> str:
    event: Json = json.loads(data)
    return str(event["type"])


def check_file(path: Path) -> None:
    """Check the integrity of the file while the gateway has it open."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        unfinished = "SELECT count(*) FROM responses WHERE ended_at IS NULL OR status NOT IN (?, ?, ?, ?)"
        assert connection.execute(unfinished, ENDED).fetchone() == (0,)
    finally:
        connection.close()


def some(chance: random.Random, ids: list[str], most: int) -> list[str]:
    return chance.sample(ids, min(most, len(ids)))
