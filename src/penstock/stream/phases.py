"""The phases of a response stream, and the table of transitions between them.

This file alone decides whether a transition is allowed, and nothing else sets the phase.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from penstock.errors import BridgeError


class ResponseStreamPhase(StrEnum):
    IDLE = "idle"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class Move(StrEnum):
    START = "start"
    BEGIN = "begin"
    DELTA = "delta"
    """All output, and what accompanies it: usage, heartbeats, a deferred finish."""
    COMPLETE = "finish: completed"
    TRUNCATE = "finish: incomplete"
    CANCEL = "cancel"
    FAIL = "fail"


_P, _M = ResponseStreamPhase, Move

TRANSITIONS: dict[ResponseStreamPhase, dict[Move, ResponseStreamPhase]] = {
    _P.IDLE: {
        _M.START: _P.IN_PROGRESS,
        # A turn can fail or be cancelled before it starts: the stream is opened, then closed (decision 6).
        _M.CANCEL: _P.INCOMPLETE,
        _M.FAIL: _P.FAILED,
    },
    _P.IN_PROGRESS: {
        _M.BEGIN: _P.IN_PROGRESS,
        _M.DELTA: _P.IN_PROGRESS,
        _M.COMPLETE: _P.COMPLETED,
        _M.TRUNCATE: _P.INCOMPLETE,
        _M.CANCEL: _P.INCOMPLETE,
        _M.FAIL: _P.FAILED,
    },
    _P.COMPLETED: {},
    _P.INCOMPLETE: {},
    _P.FAILED: {},
}

_REFUSALS: dict[ResponseStreamPhase, tuple[str, str]] = {
    _P.IDLE: (BridgeError.OUTPUT_BEFORE_START, "the stream has not started: call start() first"),
    _P.COMPLETED: (BridgeError.DELTA_AFTER_TERMINAL, "the stream has already ended with status `completed`"),
    _P.INCOMPLETE: (
        BridgeError.DELTA_AFTER_TERMINAL,
        "the stream has already ended with status `incomplete`",
    ),
    _P.FAILED: (BridgeError.DELTA_AFTER_TERMINAL, "the stream has already ended with status `failed`"),
}
"""The error for a refused transition, by phase; in any other phase it is `INVALID_TRANSITION`."""


class Lifecycle:
    """The current phase of a stream. `queued` is the part of IN_PROGRESS between `start` and `begin`."""

    __slots__ = ("phase", "queued", "streaming")

    def __init__(self) -> None:
        self.phase = ResponseStreamPhase.IDLE
        self.queued = False
        self.streaming = False
        """True while deltas are allowed: one attribute, because every delta checks it."""

    @property
    def status(self) -> str:
        """The phase as the `status` of a snapshot."""
        if self.queued or self.phase is ResponseStreamPhase.IDLE:
            return "queued"
        return self.phase.value

    def check(self, move: Move) -> ResponseStreamPhase:
        """Return the phase that `move` leads to; raise `BridgeError` if it is not allowed. Change nothing."""
        target = TRANSITIONS[self.phase].get(move)
        if target is None:
            code, message = _REFUSALS.get(
                self.phase,
                (
                    BridgeError.INVALID_TRANSITION,
                    f"{move.value} is not possible: the stream is {self.status}",
                ),
            )
            raise BridgeError(code, message)
        if move is Move.BEGIN and not self.queued:
            raise BridgeError(
                BridgeError.INVALID_TRANSITION,
                "begin() is only for queued streams; this stream is not queued",
            )
        if self.queued and move in (Move.DELTA, Move.COMPLETE, Move.TRUNCATE):
            raise BridgeError(BridgeError.INVALID_TRANSITION, "the stream is queued: call begin() first")
        return target

    def move(self, move: Move, *, queued: bool = False) -> None:
        self.phase = self.check(move)
        self.queued = queued
        self.streaming = self.phase is ResponseStreamPhase.IN_PROGRESS and not queued

    def refuse(self) -> NoReturn:
        """Raise the error that says why deltas are not allowed now."""
        self.check(Move.DELTA)
        raise AssertionError("refuse() was called while deltas are allowed")


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {ResponseStreamPhase.IDLE.name}"]
    for phase, moves in TRANSITIONS.items():
        by_target: dict[ResponseStreamPhase, list[str]] = {}
        for move, target in moves.items():
            by_target.setdefault(target, []).append(move.value)
        lines += [f"    {phase.name} --> {target.name} : {', '.join(m)}" for target, m in by_target.items()]
        if not moves:
            lines.append(f"    {phase.name} --> [*]")
    return "\n".join(lines)
