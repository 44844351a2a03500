"""What a gateway that was killed must know when it is started again, held against what it told."""

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
    """A look at a gateway that was started again. `interrupted` counts the turns that died with the last."""

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
                assert self._get(f"/v1/responses/{id}")[0] == 404, "what was deleted is there again"
            elif id in ledger.unsure:
                assert self._get(f"/v1/responses/{id}")[0] in (200, 404)
            elif id in ledger.ended:
                self.promised(id)
            else:
                self.begun(id)

    def promised(self, id: str) -> None:
        """Its end was reported: all of it is as it was told, byte for byte."""
        status, body = self._get(f"/v1/responses/{id}")
        assert status == 200, "an end that was reported is lost"
        assert body == self._ledger.ended[id]
        log = self.stream(id)
        assert violations(log) == []
        if heard := self._ledger.heard[id]:
            assert log == heard
        self._has_its_input(id)

    def begun(self, id: str) -> None:
        """It was told to exist. It has ended, whatever of it is left, and says so to whoever comes back."""
        status, body = self._get(f"/v1/responses/{id}")
        heard = self._ledger.heard[id]
        if status == 404 and heard and b'"store_late"' in heard[0]:
            return  # its client was told that it may not survive
        assert status == 200, "a response that was told to have begun is not there"
        told = json.loads(body)
        assert told["status"] in ENDED
        log = self.stream(id)
        assert json.loads(log[-1])["response"]["status"] == told["status"].replace("cancelled", "incomplete")
        if (told["error"] or {}).get("code") == RESTARTED:
            self.interrupted += 1
            assert violations(log) == []
            # What was heard, as far as it was written; behind that, only what ends things.
            assert all(_is_end(kept) for kept in log[_common(log, heard) : len(heard)])
            self._goes_on(id, len(heard) - 1)
        else:
            assert violations(log) == []
            assert heard == log[: len(heard)]
        self._has_its_input(id)

    def conversation(self, id: str) -> None:
        """What was acknowledged, in its order, and nothing twice. More may be there: it was on its way."""
        found: list[str] = []
        has_more = True
        while has_more:
            behind = f"&after={found[-1]}" if found else ""
            status, body = self._get(f"/v1/conversations/{id}/items?order=asc&limit=100{behind}")
            assert status == 200
            found += [item["id"] for item in json.loads(body)["data"]]
            has_more = json.loads(body)["has_more"]
        assert len(found) == len(set(found))
        acknowledged = self._ledger.conversations[id]
        assert [item for item in found if item in set(acknowledged)] == acknowledged

    def stream(self, id: str, after: int | None = None) -> list[bytes]:
        behind = "" if after is None else f"&starting_after={after}"
        status, body = self._get(f"/v1/responses/{id}?stream=true{behind}")
        assert status == 200
        decoder = Decoder()
        frames = [frame.data.encode() for frame in decoder.feed(body) + decoder.end()]
        assert frames.pop() == b"[DONE]"
        return frames

    def _goes_on(self, id: str, after: int) -> None:
        """Whoever was listening comes back with the last number that he has: he is told of the end, once."""
        if after < 0:
            return
        told = [json.loads(data) for data in self.stream(id, after)]
        assert told, "the end is not told to a client that had heard more than is left"
        assert [event["sequence_number"] for event in told] == list(range(after + 1, after + 1 + len(told)))
        assert [event["type"] for event in told if event["type"] in TERMINAL] == ["response.failed"]
        assert told[-1]["type"] == "response.failed"

    def _has_its_input(self, id: str) -> None:
        status, body = self._get(f"/v1/responses/{id}/input_items?limit=1")
        assert status == 200
        assert [item["id"] for item in json.loads(body)["data"]] == [self._ledger.brought[id]]

    def can_be_continued(self, id: str) -> None:
        """Unless something before it was deleted, which is told."""
        body = {"model": "quick", "input": "and then?", "previous_response_id": id}
        self._connection.request(
            "POST", "/v1/responses", json.dumps(body), {"content-type": "application/json"}
        )
        status, told = self._read()
        if self._is_whole(id):
            assert (status, json.loads(told)["status"]) == (200, "completed")
        else:
            assert (status, json.loads(told)["error"]["code"]) == (400, "previous_response_not_found")

    def _is_whole(self, id: str | None) -> bool:
        """Whether all of the chain that leads to a response is there."""
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


def _common(log: list[bytes], heard: list[bytes]) -> int:
    """How many events of two logs are the same, from their beginning. `store_late` does not count: it said
    that the response was not in the file, and now it is."""
    pairs = enumerate(zip(map(_without_late, log), map(_without_late, heard), strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(log), len(heard)))


def _without_late(data: bytes) -> Json:
    event: Json = json.loads(data)
    told = event.get("response", {}).pop("diagnostics", [])
    return {**event, "diagnostics": [each for each in told if each["code"] != "store_late"]}


def _is_end(data: bytes) -> bool:
    return _type_of(data).endswith((".done", ".failed"))


def _type_of(data: bytes) -> str:
    event: Json = json.loads(data)
    return str(event["type"])


def check_file(path: Path) -> None:
    """As another program sees it, beside the gateway that has it open."""
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
