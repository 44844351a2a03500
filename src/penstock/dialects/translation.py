"""A reader and the state machine, joined: frames of an upstream in, events for the client out.

Whatever the upstream does, the client's stream ends with exactly one terminal event.
"""

from __future__ import annotations

from penstock.dialects.plan import Reader
from penstock.errors import BridgeError
from penstock.protocol.events import Event
from penstock.sse import Frame
from penstock.stream.deltas import Delta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase


class Translation:
    """One answer. `machine` is the caller's, for heartbeats, cancellation and the snapshot."""

    def __init__(self, reader: Reader, machine: ResponseStreamStateMachine) -> None:
        self._reader = reader
        self.machine = machine

    @property
    def is_over(self) -> bool:
        return self.machine.phase not in (ResponseStreamPhase.IDLE, ResponseStreamPhase.IN_PROGRESS)

    def start(self) -> list[Event]:
        return self.machine.start()

    def feed(self, frame: Frame) -> list[Event]:
        """What comes after the end is ignored: vendors send pings and rate limits there (notes/asks A12)."""
        return [] if self.is_over else self._say(self._reader.feed(frame))

    def end(self) -> list[Event]:
        """The upstream has no more to say."""
        if self.is_over:
            return []
        events = self._say(self._reader.end())
        if self.is_over:
            return events
        try:
            return events + self.machine.finish()
        except BridgeError as error:
            return events + self.machine.fail(error.code, error.message)

    def _say(self, deltas: list[Delta]) -> list[Event]:
        events: list[Event] = []
        for delta in deltas:
            if self.is_over:
                break
            events += self.machine.apply(delta)
        return events
