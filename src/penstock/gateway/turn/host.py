"""What the store asks of the worker that runs a turn: to cancel it, to give it up, to start it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.gateway.gateway import Gateway
from penstock.gateway.turn.stop_reasons import CANCELLED, TAKEN_OVER
from penstock.store.contract import Opened


class GatewayTurnHost:
    """See `penstock.store.contract.TurnHost`. `start_stored` runs a background turn of a dead worker."""

    def __init__(
        self, gateway: Gateway, start_stored: Callable[[Gateway, Opened, int], Awaitable[bool]]
    ) -> None:
        self._gateway, self._start_stored = gateway, start_stored

    def cancel(self, tenant: str, id: str) -> None:
        if (turn := self._gateway.turns.find(tenant, id)) is not None:
            turn.stop(CANCELLED)

    def lose(self, tenant: str, id: str) -> None:
        if (turn := self._gateway.turns.find(tenant, id)) is not None:
            turn.stop(TAKEN_OVER)

    def followed(self, tenant: str, id: str, is_followed: bool) -> None:
        self._gateway.followers.follow_elsewhere((tenant, id), is_followed)

    async def start(self, turn: Opened, last_sequence: int) -> bool:
        return await self._start_stored(self._gateway, turn, last_sequence)
