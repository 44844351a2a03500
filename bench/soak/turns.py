"""One turn as a client of the soak sees it, and what of it would be wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import count
from time import monotonic

from bench.soak.answers import FAULTS, LAWFUL, TOOL, Directions, Json
from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from penstock.stream.checker import StreamChecker

MODELS = ("chat", "anthropic", "gemini", "responses", "chain")
TOOLS = [{"type": "function", "name": TOOL, "parameters": {"type": "object", "additionalProperties": True}}]
RESTING = ("status-401", "status-429")
"""Answers after which the gateway rests a key: they come from targets of their own."""
_NEVER_COMPLETE = frozenset(FAULTS) - {"wrong-dialect"}
"""A stream in another dialect may be recognised, and translated."""
_STORE_CODES = frozenset(("store_unavailable", "idempotency_outcome_unknown", "worker_lost"))
_names = count(1)


class SeenTurn:
    """A request, its directions for the upstream, and what came back."""

    def __init__(
        self, how: str, *, random: random.Random, words: int | None = None, gap_ms: int = -1
    ) -> None:
        words = random.randint(4, 40) if words is None else words
        gap = random.choice((0, 0, 5, 20)) if gap_ms < 0 else gap_ms
        self.directions = Directions(f"t{next(_names)}", how, words, gap)
        dialect = random.choice(MODELS)
        if how in RESTING:
            dialect = "refusing"
        elif how in FAULTS and dialect == "chain":
            dialect = "chat"  # its fallback would be asked for the same fault
        self.model = dialect
        self.began = monotonic()
        self.id = ""
        self.status = 0
        """Of HTTP."""
        self.code = ""
        self.events: list[Json] = []
        self.response: Json | None = None
        self.violations: list[str] = []
        self.is_done = False
        """Whether [DONE] was received."""
        self.is_cut = False
        """Whether the client has closed the connection, or it broke."""
        self.may_be_stopped = False
        """Whether its client cancels it."""

    def body(self, **fields: object) -> Json:
        tools = {"tools": TOOLS} if self.directions.how == "call" else {}
        return {"model": self.model, "input": self.directions.prompt, **tools, **fields}

    # What came back

    def take_json(self, body: Json) -> None:
        if self.status == 200:
            self.id, self.response = body["id"], body
        else:
            self._take_error(body)

    def _take_error(self, body: Json) -> None:
        error = body.get("error") or {}
        self.code = str(error.get("code"))
        if not {"message", "type", "param", "code"} <= error.keys():
            self.violations.append(f"an error in the wrong shape: {body}")

    def take_event(self, event: Json) -> None:
        self.events.append(event)
        if "response" in event:
            self.id = event["response"]["id"]
            if event["type"] in TERMINAL:
                self.response = event["response"]

    @property
    def ends(self) -> int:
        return sum(event["type"] in TERMINAL for event in self.events)

    @property
    def outcome(self) -> str:
        """How it ended; empty if its client does not know."""
        if self.response is None or self.response["status"] in ("queued", "in_progress"):
            return ""
        if (self.response.get("incomplete_details") or {}).get("reason") == "cancelled":
            return "cancelled"
        return str(self.response["status"])

    # What of it is wrong

    def problems(self, troubles: frozenset[str]) -> Iterable[str]:
        """Yield what is wrong. `troubles` are the parts of the site that failed during the turn."""
        yield from self.violations
        if self.ends > 1:
            yield f"{self.ends} terminal events"
        if self.is_cut:
            return
        if self.status != 200:
            if not self._may_be_refused(troubles):
                yield f"refused with {self.status} {self.code}"
            return
        if not self.outcome:
            yield "it has no end"
            return
        how = self.directions.how
        if self.outcome == "completed":
            if how in _NEVER_COMPLETE:
                yield "it has completed, although its upstream failed"
            elif how in LAWFUL:
                yield from self._content_problems()
        elif how in LAWFUL and not (self.may_be_stopped and self.outcome == "cancelled"):
            error = (self.response or {}).get("error")
            if not (troubles and self.outcome == "failed"):
                yield f"it has ended as {self.outcome}: {error}"

    def _may_be_refused(self, troubles: frozenset[str]) -> bool:
        if "store" in troubles and self.code in _STORE_CODES:
            return True
        return self.status >= 400 and (self.directions.how in FAULTS or "upstream" in troubles)

    def _content_problems(self) -> Iterable[str]:
        assert self.response is not None
        output = self.response["output"]
        if self.directions.how == "call":
            calls = [item for item in output if item["type"] == "function_call"]
            if len(calls) != 1:
                yield f"{len(calls)} calls"
            elif json.loads(calls[0]["arguments"]) != self.directions.arguments:
                yield f"its arguments are wrong: {calls[0]['arguments']}"
            return
        parts = [part for item in output if item["type"] == "message" for part in item["content"]]
        text = "".join(part["text"] for part in parts)
        if text != self.directions.text:
            yield f"its text is wrong: {text[:200]!r}"

    def __repr__(self) -> str:
        asked = self.directions
        return f"{asked.name} ({self.model}, {asked.how}, {asked.words} words, {self.id or 'no id'})"


class StreamReader:
    """Reads the events of a turn, and checks them as they come."""

    def __init__(self, turn: SeenTurn, *, is_resumed: bool = False) -> None:
        self._turn = turn
        self._decoder = Decoder()
        self._checker = None if is_resumed else StreamChecker(accent="openresponses")

    def feed(self, data: bytes) -> None:
        turn = self._turn
        for frame in self._decoder.feed(data):
            if self._checker is not None:
                turn.violations += map(str, self._checker.feed_frame(frame.event, frame.data))
            if frame.data == "[DONE]":
                turn.is_done = True
                continue
            event = json.loads(frame.data)
            if event["sequence_number"] != len(turn.events):
                turn.violations.append(f"event {event['sequence_number']} came as number {len(turn.events)}")
            turn.take_event(event)

    def end(self) -> None:
        """The whole stream was received."""
        if self._checker is not None:
            self._turn.violations += map(str, self._checker.end())
        if not self._turn.is_done:
            self._turn.violations.append("the stream has no [DONE]")
