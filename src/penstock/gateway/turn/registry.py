"""The registry of running turns."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from penstock.gateway.http.exchange import ClientRequest
from penstock.gateway.services import Services
from penstock.gateway.turn.stop_reasons import StopReason
from penstock.gateway.turn.turn import Turn


class _Entry(Struct, frozen=True):
    turn: Turn
    exchange: ClientRequest
    services: Services
    """The services at the start of the turn: the settings may have changed since."""


class RunningTurns:
    """The running turns by tenant and response id. Belongs to one event loop."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self.ended = asyncio.Event()
        """Set while no turn runs."""
        self.ended.set()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, turn: Turn, exchange: ClientRequest, services: Services) -> None:
        """Add a turn, unless it has already been added."""
        if (turn.tenant, turn.id) not in self._entries:
            self._entries[turn.tenant, turn.id] = _Entry(turn, exchange, services)
            self.ended.clear()
            services.enter()

    def remove(self, turn: Turn) -> None:
        self._entries.pop((turn.tenant, turn.id)).services.leave()
        if not self._entries:
            self.ended.set()

    def find(self, tenant: str, id: str) -> Turn | None:
        entry = self._entries.get((tenant, id))
        return entry.turn if entry is not None else None

    def stop(self, why: StopReason) -> None:
        """Stop all turns; their clients get a terminal event."""
        for entry in list(self._entries.values()):
            entry.turn.stop(why)

    def abort(self) -> None:
        """Abort the connections of clients that do not read their terminal event."""
        for entry in self._entries.values():
            entry.exchange.abort()
