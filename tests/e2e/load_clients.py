"""Clients that record what they receive, to check it after the gateway was killed."""

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

DISCONNECTED = (OSError, http.client.HTTPException, WebSocketException, EOFError)
"""The exceptions of a client when the gateway is killed."""

LATE = b'"store_late"'
"""An end with this diagnostic was not promised to survive (decision 17)."""

MODELS = ("quick", "text", "tools", "slow")
_RECENT = 40


@dataclass
class Ledger:
    """What all clients received. Lists and dictionaries grow in atomic steps."""

    received: dict[str, list[bytes]] = field(default_factory=dict)
    """By response id: the received events; empty if it was not streamed."""
    ended: dict[str, bytes] = field(default_factory=dict)
    """By response id: the last snapshot, if its end was promised to survive."""
    brought: dict[str, str] = field(default_factory=dict)
    """By response id: the id of its input item."""
    deleted: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    """Being deleted when the gateway was killed: either fully there or not at all."""
    conversations: dict[str, list[str]] = field(default_factory=dict)
    """By conversation id: the acknowledged items, in order."""
    talks: dict[int, str] = field(default_factory=dict)
    """By client number: its conversation, which continues with the next gateway."""
    recent: list[str] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def begin(self, id: str, item: str) -> None:
        self.brought[id] = item
        self.received.setdefault(id, [])
        self.recent.append(id)

    def end(self, id: str, response: bytes) -> None:
        if LATE not in response:
            self.ended[id] = response


class Moment:
    """An event that is set after a number of received messages: a moment without a clock."""

    def __init__(self, messages: int) -> None:
        self._remaining, self._lock = messages, threading.Lock()
        self.came = threading.Event()

    def count(self) -> None:
        with self._lock:
            self._remaining -= 1
            if self._remaining <= 0:
                self.came.set()


class Client:
    """One thread of the load: performs random actions until the gateway is killed."""

    def __init__(self, running: Running, ledger: Ledger, moment: Moment, number: int, seed: int) -> None:
        self.running, self.ledger, self.moment = running, ledger, moment
        self.number, self.chance = number, random.Random(seed)

    def run(self) -> None:
        try:
            while not self.moment.came.is_set():
                self.chance.choice(ACTIONS)(self)
        except DISCONNECTED:
            self.moment.came.wait(30)  # only the test ends the gateway
        except BaseException as fault:
            self.ledger.faults.append(fault)
            self.moment.came.set()

    # Actions

    def stream(self) -> None:
        self._stream(self._fields())

    def stream_on(self) -> None:
        """Continue a turn: a running one, an ended one, or one that an earlier gateway left."""
        self._stream(self._fields(previous_response_id=self._recent()))

    def ask(self) -> None:
        fields = self._fields(previous_response_id=self._recent() if self.chance.random() < 0.5 else None)
        status, body = self._request("POST", "/v1/responses", fields)
        if status == 200:
            id = json.loads(body)["id"]
            self.ledger.begin(id, fields["input"][0]["id"])
            self.ledger.end(id, body)

    def converse(self) -> None:
        """Use a conversation of its own, so that the order of acknowledged items is known."""
        items = self.ledger.conversations
        id = self.ledger.talks.get(self.number, "")
        if not id:
            item = self._item()
            _, body = self._request("POST", "/v1/conversations", {"items": [item]})
            id = self.ledger.talks[self.number] = json.loads(body)["id"]
            items[id] = [item["id"]]
        if self.chance.random() < 0.3:
            item = self._item()
            self._request("POST", f"/v1/conversations/{id}/items", {"items": [item]})
            items[id].append(item["id"])
            return
        fields = self._fields(conversation=id, model="quick")
        if ended := self._stream(fields):
            output = [each["id"] for each in json.loads(ended)["output"]]
            items[id] += [fields["input"][0]["id"], *output]

    def run_in_background(self) -> None:
        """Start a background turn and poll it until it ends."""
        fields = self._fields(background=True)
        _, body = self._request("POST", "/v1/responses", fields)
        id = json.loads(body)["id"]
        self.ledger.begin(id, fields["input"][0]["id"])
        while json.loads(body)["status"] in ("queued", "in_progress"):
            _, body = self._request("GET", f"/v1/responses/{id}")
        self.ledger.end(id, body)

    def stream_in_background(self) -> None:
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
                    id = self._receive(id, data, fields)
                self._receive(id, data, fields)

    def delete(self) -> None:
        ended = list(self.ledger.ended)[-_RECENT:]
        if not ended:
            return
        id = self.chance.choice(ended)
        self.ledger.unsure.add(id)
        status, body = self._request("DELETE", f"/v1/responses/{id}")
        assert status in (200, 404), body
        self.ledger.deleted.add(id)

    # Helpers

    def _stream(self, fields: Json) -> bytes:
        """Return the last snapshot as received; empty if the request was refused."""
        with self._requested("POST", "/v1/responses", {**fields, "stream": True}) as answer:
            if self._is_refused(answer):
                return b""
            decoder, id = Decoder(), ""
            while data := answer.read1(65536):
                for frame in decoder.feed(data):
                    if frame.data != "[DONE]":
                        id = self._receive(id, frame.data.encode(), fields)
        last = self.ledger.received[id][-1]
        # The socket of a killed process may seem to end normally.
        return snapshot_in(last) if last.startswith(_ENDS) else b""

    def _receive(self, id: str, data: bytes, fields: Json) -> str:
        ledger = self.ledger
        if not id:
            id = json.loads(data)["response"]["id"]
            ledger.begin(id, fields["input"][0]["id"])
        ledger.received[id].append(data)
        if data.startswith(_ENDS):
            ledger.end(id, snapshot_in(data))
        self.moment.count()
        return id

    def _request(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        with self._requested(method, path, body) as answer:
            if self._is_refused(answer):
                return answer.status, b""
            data = answer.read()
        self.moment.count()
        return answer.status, data

    @contextmanager
    def _requested(self, method: str, path: str, body: Json | None) -> Iterator[http.client.HTTPResponse]:
        connection = self.running.connect()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"content-type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def _is_refused(self, answer: http.client.HTTPResponse) -> bool:
        """Return whether the request was refused; only deleted responses may be missing."""
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


ACTIONS: tuple[Callable[[Client], None], ...] = (
    Client.stream,
    Client.stream,
    Client.stream_on,
    Client.ask,
    Client.converse,
    Client.run_in_background,
    Client.stream_in_background,
    Client.talk,
    Client.delete,
)

_ENDS = tuple(f'{{"type":"{type}"'.encode() for type in sorted(TERMINAL))


def snapshot_in(event: bytes) -> bytes:
    """Return the response in an event, byte for byte."""
    return event[event.index(b'"response":') + len(b'"response":') : -1]


def load_and_kill(running: Running, ledger: Ledger, *, clients: int, messages: int, seed: int) -> None:
    """Put a gateway under load, and kill it after the clients have received `messages` messages."""
    moment = Moment(messages)
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
    assert came, "the clients received too little"
    assert not any(thread.is_alive() for thread in threads)
    for fault in ledger.faults:
        raise fault
