"""The responses of a WebSocket connection that can be continued, stored or not."""

from __future__ import annotations

from msgspec import Struct

from penstock.protocol.items import Item


class ConnectionHistory(Struct, frozen=True):
    """The last response of a WebSocket with its history, stored or not (spec N18)."""

    id: str
    items: tuple[Item, ...]
    is_stored: bool = True
    weight: int = 0


class ConnectionCache:
    """The last response of each lane of a connection, by the lane's `stream_id`.

    Together they may weigh as much as one request: beyond that, the responses that were not used for the
    longest time are forgotten. The newest response always stays.
    """

    def __init__(self, most_weight: int) -> None:
        self._most_weight = most_weight
        self._last: dict[str, ConnectionHistory] = {}
        """Least recently used first."""

    def find(self, id: str | None) -> ConnectionHistory | None:
        """Return the response with this id, from any lane: a lane may continue a response of another."""
        for lane, history in self._last.items():
            if history.id == id:
                self._last[lane] = self._last.pop(lane)
                return history
        return None

    def put(self, lane: str, history: ConnectionHistory) -> None:
        self._last.pop(lane, None)
        self._last[lane] = history
        while len(self._last) > 1 and sum(each.weight for each in self._last.values()) > self._most_weight:
            del self._last[next(iter(self._last))]

    def forget(self, lane: str, id: str) -> None:
        """Forget a response whose continuation failed in its own lane (spec N21, spec N22). A continuation
        that failed in another lane changes nothing."""
        if lane in self._last and self._last[lane].id == id:
            del self._last[lane]
