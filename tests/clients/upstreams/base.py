"""The shared part of the strict upstreams: check the request, record it, play the next answer."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tests.client.server import Asked, Connection, Script, Server, Step, answer, chunk, head, send
from tests.clients.script import (
    Answer,
    Call,
    Cut,
    Hang,
    Json,
    Refuse,
    Repeat,
    Reply,
    Say,
    ScriptError,
    Seen,
    Silence,
    Stop,
    Think,
    Used,
    chosen,
)
from tests.clients.script import Step as ScriptStep

SSE_HEAD = head(transfer_encoding="chunked")
LAST_CHUNK = b"0\r\n\r\n"
USUAL_INPUT, USUAL_OUTPUT = 120, 30


class Voice(ABC):
    """One answer in a vendor's wire format. Each method returns the bytes to send."""

    input_tokens = USUAL_INPUT

    @abstractmethod
    def begin(self) -> bytes: ...

    @abstractmethod
    def say(self, text: str) -> bytes: ...

    @abstractmethod
    def think(self, text: str) -> bytes: ...

    @abstractmethod
    def call(self, name: str, arguments: Json) -> bytes: ...

    @abstractmethod
    def end(self, *, is_truncated: bool) -> bytes: ...


class StrictUpstream(Server, ABC):
    """Refuses what the vendor refuses, with 400, and then plays the next answer of the script."""

    dialect = ""

    def __init__(self) -> None:
        super().__init__()
        self._replies: list[Reply | Repeat] = []
        self._always: list[tuple[Callable[[Seen], bool], Answer]] = []
        self._lock = threading.Lock()
        self.refusals: list[str] = []
        """Why requests were refused or could not be answered. Empty after every good case."""
        self.seen: list[Seen] = []
        self.bodies: list[Json] = []
        self.left = threading.Event()
        """Set when the gateway has closed the connection of an answer that hangs."""

    def play(self, replies: list[Reply | Repeat]) -> None:
        with self._lock:
            self._replies = list(replies)
            self.refusals, self.seen, self.bodies = [], [], []
            self._always = []
        self.left.clear()

    def always(self, applies: Callable[[Seen], bool], reply: Answer) -> None:
        """Answer matching requests outside of the script: for requests that a client sends on the side."""
        self._always.append((applies, reply))

    @property
    def unplayed(self) -> int:
        return sum(not isinstance(reply, Repeat) for reply in self._replies)

    # What a vendor defines

    @abstractmethod
    def faults(self, asked: Asked) -> list[str]:
        """Return why the vendor would refuse a request."""

    @abstractmethod
    def read(self, body: Json) -> Seen: ...

    @abstractmethod
    def voice(self, body: Json) -> Voice: ...

    @abstractmethod
    def error(self, status: int, message: str) -> Json:
        """Return an error in the vendor's shape."""

    # Answering

    def script_for(self, asked: Asked) -> Script:
        if asked.method == "GET":
            return [answer(404, self.error(404, "there is no list of models"))]
        faults = self.faults(asked)
        if faults:
            self.refusals.append(f"{asked.target}: {'; '.join(faults)}")
            return [answer(400, self.error(400, faults[0]))]
        body = asked.json
        seen = self.read(body)
        aside = next((reply for applies, reply in self._always if applies(seen)), None)
        if aside is not None:
            return self._steps(aside, seen, self.voice(body))
        self.seen.append(seen)
        self.bodies.append(body)
        reply = self._next()
        if reply is None:
            self.refusals.append(f"request {len(self.seen)} is one more than the script has answers for")
            return [answer(400, self.error(400, "the script has ended"))]
        try:
            return self._steps(reply(seen) if callable(reply) else reply, seen, self.voice(body))
        except ScriptError as problem:
            self.refusals.append(str(problem))
            return [answer(400, self.error(400, str(problem)))]

    def _next(self) -> Reply | None:
        with self._lock:
            if not self._replies:
                return None
            first = self._replies[0]
            if isinstance(first, Repeat):
                return first.reply
            del self._replies[0]
            return first

    def _steps(self, played: Answer, seen: Seen, voice: Voice) -> Script:
        first = played[0] if played else None
        if isinstance(first, Refuse):
            headers = {name.replace("-", "_"): value for name, value in first.headers.items()}
            return [answer(first.status, self.error(first.status, first.message), **headers)]
        for step in played:
            if isinstance(step, Used):
                voice.input_tokens = step.input_tokens
        begun = [send(SSE_HEAD), _sent(voice.begin())]
        # A silence at the beginning comes before the first byte.
        steps: Script = [] if isinstance(first, Silence) else begun
        for index, step in enumerate(played):
            if isinstance(step, Cut):
                return steps  # the connection is closed before the last chunk
            if isinstance(step, Hang):
                return [*steps, self._until_left]
            steps += self._step(step, seen, voice)
            if not index and isinstance(step, Silence):
                steps += begun
        is_truncated = any(isinstance(step, Stop) for step in played)
        return [*steps, _sent(voice.end(is_truncated=is_truncated)), send(LAST_CHUNK)]

    def _step(self, step: ScriptStep, seen: Seen, voice: Voice) -> Script:
        if isinstance(step, Silence):
            return [_pause(step.seconds)]
        if isinstance(step, Say):
            return [_sent(voice.say(step.text))]
        if isinstance(step, Think):
            return [_sent(voice.think(step.text))]
        if isinstance(step, Call):
            return [_sent(voice.call(*chosen(step, seen.tools)))]
        return []

    async def _until_left(self, connection: Connection) -> None:
        try:
            while await connection.reader.read(65536):
                pass
        except OSError:
            pass
        self.left.set()


def _sent(data: bytes) -> Step:
    return send(chunk(data) if data else b"")


def _pause(seconds: float) -> Step:
    async def step(connection: Connection) -> None:
        await asyncio.sleep(seconds)
        if connection.writer.transport.is_closing():
            raise ConnectionError

    return step


def repeated(values: list[Any]) -> list[Any]:
    """Return the values that occur more than once."""
    return [value for index, value in enumerate(values) if value in values[:index]]
