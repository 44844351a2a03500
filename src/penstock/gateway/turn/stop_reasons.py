"""The reasons for stopping a turn from outside."""

from __future__ import annotations

from msgspec import Struct


class StopReason(Struct, frozen=True):
    closer: str
    code: str
    message: str


CANCELLED = StopReason("gateway", "cancelled", "the response was cancelled")
CLIENT_DISCONNECTED = StopReason("client", "client_gone", "the client closed the connection")
CLIENT_STALLED = StopReason("client", "client_stalled", "the client stopped reading")
TAKEN_OVER = StopReason(
    "gateway",
    "worker_lost",
    "this worker could not reach the store for too long, and another one has ended the response as failed",
)
SHUTTING_DOWN = StopReason(
    "gateway", "shutting_down", "the gateway was stopped before the response was complete"
)
