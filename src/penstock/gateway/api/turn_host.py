"""What the store asks of this worker, if several share it: to cancel a turn, to give it up, to start it."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.fairness import run_heavy
from penstock.gateway.api.background import run_accepted
from penstock.gateway.api.compact import prepare_any
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import read_items
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.exchange import ClientlessChannel, ClientRequest
from penstock.gateway.refusals import refusal_for
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.logs import log_refused
from penstock.gateway.turn.prepare import Prepared, StoredStart
from penstock.gateway.turn.run import admit_turn
from penstock.gateway.turn.stop_reasons import CANCELLED, TAKEN_OVER
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import parse, read
from penstock.store.records import LOCAL, Opened


class GatewayTurnHost:
    """See `penstock.store.contract.TurnHost`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def is_draining(self) -> bool:
        return self._gateway.is_draining

    def cancel(self, tenant: str, id: str) -> None:
        if (turn := self._gateway.turns.find(tenant, id)) is not None:
            turn.stop(CANCELLED)

    def lose(self, tenant: str, id: str) -> None:
        if (turn := self._gateway.turns.find(tenant, id)) is not None:
            turn.stop(TAKEN_OVER)

    def followed(self, tenant: str, id: str, is_followed: bool) -> None:
        self._gateway.followers.follow_elsewhere((tenant, id), is_followed)

    async def start(self, turn: Opened, last_sequence: int) -> bool:
        return not self.is_draining and await _start(self._gateway, turn, last_sequence)


async def _start(gateway: Gateway, turn: Opened, last_sequence: int) -> bool:
    """Run a background turn that was accepted by a worker that died, or stopped, before it called an
    upstream. Return False if that is not possible."""
    exchange = ClientRequest(ClientlessChannel(f"accent={turn.accent}"))
    try:
        key = _key_of(gateway, turn.tenant)
        request = read(parse(turn.request), CreateResponse)
        request = replace(request, input=read_items(turn.input))
        weight = sum(len(item.data) for item in turn.input)
        resolved = await complete(gateway, key, request, weight)
        prepared = await run_heavy(
            resolved.weight,
            prepare_any,
            gateway,
            exchange,
            key,
            resolved,
            Stopwatch(gateway.services.clock),
            stored=StoredStart(turn, last_sequence),
        )
        await admit_turn(gateway, prepared, exchange)
    except Exception as error:
        log_refused(refusal_for(error, exchange.request_id), "POST", "responses", exchange.request_id)
        return False
    gateway.run_in_background(_run_stored(gateway, prepared, exchange))
    return True


async def _run_stored(gateway: Gateway, prepared: Prepared, exchange: ClientRequest) -> None:
    await prepared.keeper.keep(prepared.machine.start(queued=True))  # those that are not in its log yet
    await run_accepted(gateway, prepared, exchange)


def _key_of(gateway: Gateway, tenant: str) -> ClientKey | None:
    """Return the key with the name of a tenant; raise `RequestRefused` if there is none any more."""
    keys = gateway.services.settings.keys
    key = next((each for each in keys if each.name == tenant), None)
    if (key is None) != (tenant == LOCAL and not keys):
        raise RequestRefused(401, "authentication_error", "the key of this turn was removed")
    return key
