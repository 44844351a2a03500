"""Clients that note what they are told, so that it can be checked when the gateway was killed under them."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from tests.gateway.running import SECRET_PROMPT, Json, Running
from tests.gateway.scripts import TOOLS

GONE = (OSError, http.client.HTTPException, WebSocketException, EOFError)
"""What a client meets when the gateway dies."""

LATE = b'"store_late"'
"""An end with this diagnostic was not promised to survive (decision 17)."""

MODELS = ("quick", "text", "tools", "slow")
_RECENT = 40


@dataclass
class Ledger:
    """What all clients were told. Lists and dictionaries grow by single steps, each of them atomic."""

    heard: dict[str, list[bytes]] = field(default_factory=dict)
    """By the id of a response: the events of its stream as they came; none where it was not streamed."""
    ended: dict[str, bytes] = field(default_factory=dict)
    """The last snapshot, of those whose end was promised to survive."""
    brought: dict[str, str] = field(default_factory=dict)
    """The id of the item that a turn was asked with."""
    deleted: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    """To be deleted when the gateway died: they are there wholly, or not at all."""
    conversations: dict[str, list[str]] = field(default_factory=dict)
    """The items of each that were acknowledged, in their order."""
    talks: dict[int, str] = field(default_factory=dict)
    """The conversation of each client, by its number: it goes on with it under the next gateway."""
    recent: list[str] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def begin(self, id: str, item: str) -> None:
        self.brought[id] = item
        self.heard.setdefault(id, [])
        self.recent.append(id)

    def end(self, id: str, response: bytes) -> None:
        if LATE not in response:
            self.ended[id] = response


class Moment:
    """Comes when the clients have heard so many things in all: a moment that is not on any clock."""

    def __init__(self, things: int) -> None:
        self._left, self._lock = things, threading.Lock()
        self.came = threading.Event()

    def hear(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self.came.set()


class Client:
    """One thread of the load: it does one thing after the other until the gateway is gone."""

    def __init__(self, running: Running, ledger: Ledger, moment: Moment, number: int, seed: int) -> None:
        self.running, self.ledger, self.moment = running, ledger, moment
        self.number, self.chance = number, random.Random(seed)

    def run(self) -> None:
        try:
            while not self.moment.came.is_set():
                self.chance.choice(DEEDS)(self)
        except GONE:
            self.moment.came.wait(30)  # Nobody but the test ends the gateway.
        except BaseException as fault:
            self.ledger.faults.append(fault)
            self.moment.came.set()

    # What it does

    def stream(self) -> None:
        self._stream(self._fields())

    def stream_on(self) -> None:
        """Continue something: one that runs, that has ended, or that an earlier gateway left behind."""
        self._stream(self._fields(previous_response_id=self._recent()))

    def ask(self) -> None:
        fields = self._fields(previous_response_id=self._recent() if self.chance.random() < 0.5 else None)
        status, body = self._request("POST", "/v1/responses", fields)
        if status == 200:
            id = json.loads(body)["id"]
            self.ledger.begin(id, fields["input"][0]["id"])
            self.ledger.end(id, body)

    def converse(self) -> None:
        """A conversation of its own, so that the order of what is acknowledged is known."""
        told = self.ledger.conversations
        id = self.ledger.talks.get(self.number, "")
        if not id:
            item = self._item()
            _, body = self._request("POST", "/v1/conversations", {"items": [item]})
            id = self.ledger.talks[self.number] = json.loads(body)["id"]
            told[id] = [item["id"]]
        if self.chance.random() < 0.3:
            item = self._item()
            self._request("POST", f"/v1/conversations/{id}/items", {"items": [item]})
            told[id].append(item["id"])
            return
        fields = self._fields(conversation=id, model="quick")
        if ended := self._stream(fields):
            output = [each["id"] for each in json.loads(ended)["output"]]
            told[id] += [fields["input"][0]["id"], *output]

    def leave_it_to_run(self) -> None:
        """A turn in the background, asked after until it has ended."""
        fields = self._fields(background=True)
        _, body = self._request("POST", "/v1/responses", fields)
        id = json.loads(body)["id"]
        self.ledger.begin(id, fields["input"][0]["id"])
        while json.loads(body)["status"] in ("queued", "in_progress"):
            _, body = self._request("GET", f"/v1/responses/{id}")
        self.ledger.end(id, body)

    def leave_it_and_listen(self) -> None:
        self._stream(self._fields(background=True))

    def talk(self) -> None:
        address = self.running.address
        with connect(f"ws://{address.netloc}/v1/responses", close_timeout=1) as socket:
            for _ in range(self.chance.randrange(1, 3)):
                fields = self._fields()
                del fields["stream"]
                socket.send(json.dumps({"type": "response.create", **fields}))
                id = ""
                while not (data := str(socket.recv(30)).encode()).startswith(_ENDS):
                    id = self._hear(id, data, fields)
                self._hear(id, data, fields)

    def delete(self) -> None:
        ended = list(self.ledger.ended)[-_RECENT:]
        if not ended:
            return
        id = self.chance.choice(ended)
        self.ledger.unsure.add(id)
        status, body = self._request("DELETE", f"/v1/responses/{id}")
        assert status in (200, 404), body
        self.ledger.deleted.add(id)

    # Inside

    def _stream(self, fields: Json) -> bytes:
        """The last snapshot, as it came; nothing when the request was refused."""
        with self._asking("POST", "/v1/responses", {**fields, "stream": True}) as answer:
            if self._is_refused(answer):
                return b""
            decoder, id = Decoder(), ""
            while data := answer.read1(65536):
                for frame in decoder.feed(data):
                    if frame.data != "[DONE]":
                        id = self._hear(id, frame.data.encode(), fields)
        last = self.ledger.heard[id][-1]
        # A socket that a dead process leaves may seem to end in good order.
        return snapshot_in(last) if last.startswith(_ENDS) else b""

    def _hear(self, id: str, data: bytes, fields: Json) -> str:
        ledger = self.ledger
        if not id:
            id = json.loads(data)["response"]["id"]
            ledger.begin(id, fields["input"][0]["id"])
        ledger.heard[id].append(data)
        if data.startswith(_ENDS):
            ledger.end(id, snapshot_in(data))
        self.moment.hear()
        return id

    def _request(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        with self._asking(method, path, body) as answer:
            if self._is_refused(answer):
                return answer.status, b""
            told = answer.read()
        self.moment.hear()
        return answer.status, told

    @contextmanager
    def _asking(self, method: str, path: str, body: Json | None) -> Iterator[http.client.HTTPResponse]:
        connection = self.running.connect()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"content-type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def _is_refused(self, answer: http.client.HTTPResponse) -> bool:
        """Only what was deleted may be missing."""
        if answer.status == 200:
            return False
        code = json.loads(answer.read())["error"]["code"]
        assert code in ("previous_response_not_found", "response_not_found"), code
        return True

    def _fields(self, **fields: object) -> Json:
        model = self.chance.choice(MODELS)
        return {"model": model, "input": [self._item()], "tools": TOOLS, "stream": False, **fields}

    def _item(self) -> Json:
        id = f"msg_{UUID(int=self.chance.getrandbits(128)).hex}"
        return {"type": "message", "id": id, "role": "user", "content": f"{SECRET_PROMPT} {id}"}

    def _recent(self) -> str | None:
        recent = self.ledger.recent[-_RECENT:]
        return self.chance.choice(recent) if recent else None


DEEDS: tuple[Callable[[Client], None], ...] = (
    Client.stream,
    Client.stream,
    Client.stream_on,
    Client.ask,
    Client.converse,
    Client.leave_it_to_run,
    Client.leave_it_and_listen,
    Client.talk,
    Client.delete,
)

_ENDS = tuple(f'{{"type":"{type}"'.encode() for type in sorted(TERMINAL))


def snapshot_in(event: bytes) -> bytes:
    """The response in an event, byte for byte."""
    return event[event.index(b'"response":') + len(b'"response":') : -1]


def load_and_kill(running: Running, ledger: Ledger, *, clients: int, things: int, seed: int) -> None:
    """Ask much of a gateway at once, and kill it when the clients have heard so many things."""
    moment = Moment(things)
    threads = [
        threading.Thread(target=Client(running, ledger, moment, number, seed * 1000 + number).run)
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    came = moment.came.wait(60)
    running.process.kill()
    running.process.wait()
    for thread in threads:
        thread.join(60)
    assert came, "the clients were told too little"
    assert not any(thread.is_alive() for thread in threads)
    for fault in ledger.faults:
        raise fault
