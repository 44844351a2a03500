"""The state of a gateway: its settings, upstreams, store and running turns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.history.sealing import Sealer, load_sealer
from penstock.gateway.http.bodies import BodyReader
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import code_of
from penstock.gateway.services import Fleet, Services
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log
from penstock.gateway.telemetry.metrics import Metrics, process_gauges
from penstock.gateway.turn.followers import Followers
from penstock.gateway.turn.idempotency import IdempotencyKeys
from penstock.gateway.turn.registry import RunningTurns
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN
from penstock.gateway.turn.verdict import shown
from penstock.net.timers import SharedTimers
from penstock.store.contract import Store
from penstock.store.memory_ledger import MemoryLedger
from penstock.store.reasoning_memory import ReasoningCache
from penstock.tokens.counter import TokenCounter
from penstock.tokens.tokenizer import import_tokenizers
from penstock.upstream.ejection import EjectionChange, Ejections, TargetModel
from penstock.upstream.target import Upstream

if TYPE_CHECKING:
    from penstock.gateway.telemetry.otel.telemetry import Telemetry

T = TypeVar("T")


class Gateway:
    """The shared state of all requests. Belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        sealer: Sealer | None = None,
        clock: Callable[[], float] = time.time,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`clock` returns seconds since 1970, for the ledger. `environment` has the variables of
        OpenTelemetry; raises `ConfigError` if they cannot be used."""
        self.store = store
        self.clock = clock
        self.local_ledger = MemoryLedger()
        """What keys with limits use, in case that the store's ledger cannot be reached."""
        self.sealer = sealer or load_sealer({}, None)
        self.reasoning = ReasoningCache(time.monotonic)
        self.idempotency = IdempotencyKeys(store)
        self.followers = Followers()
        self.turns = RunningTurns()
        self.timers = SharedTimers()
        self.metrics = Metrics()
        self._environment = environment
        self.telemetry = self._open_telemetry(settings)
        """Traces and metrics for OpenTelemetry; None: they are turned off."""
        self.started_at = int(time.time())
        self.is_draining = False
        self._waiting = 0
        """Requests whose turns have not begun because they wait for other turns."""
        self._bodies = BodyReader()
        self._fleet = Fleet()
        self._counter = TokenCounter()
        import_tokenizers()
        self._background: set[asyncio.Task[None]] = set()
        self._retiring: dict[asyncio.Task[None], Services] = {}
        self.ejections = Ejections(
            settings.routing.ejection, clock=time.monotonic, changed=self._note_ejection
        )
        upstreams, _ = self._fleet.renew(settings.targets)
        self.services = Services(settings, upstreams, self.metrics, self._counter)
        self.metrics.gauge("penstock_turns_running", self.running)
        self.metrics.gauge("penstock_tasks", lambda: len(asyncio.all_tasks()))
        self.metrics.gauge("penstock_keys_resting", self._fleet.resting)
        self.metrics.gauge("penstock_targets_ejected", self._ejected)
        for name, read in process_gauges().items():
            self.metrics.gauge(name, read)

    def running(self) -> int:
        """Return the number of running turns."""
        return len(self.turns)

    def _ejected(self) -> dict[str, float]:
        return {**dict.fromkeys(self._fleet.resting(), 0.0), **self.ejections.ejected()}

    def _note_ejection(self, change: EjectionChange) -> None:
        fields: dict[str, Any] = {
            "event": "target",
            "code": "back" if change.error is None else "ejected",
            "target": change.target,
            "upstream_model": shown(change.model),
        }
        if change.error is None:
            log.info("%s", change.sentence(), extra={"fields": fields})
            return
        self.metrics.count("penstock_ejections_total", target=change.target)
        if self.telemetry is not None:
            self.telemetry.count_ejection(change.target)
        why = code_of(change.error)
        fields |= {"seconds": change.seconds, "last_error": why}
        log.warning("%s", f"{change.sentence()}, the last with {why}", extra={"fields": fields})

    def reload(self, settings: Settings) -> None:
        """Use the new settings for new turns; running turns end under the old ones."""
        telemetry = self.telemetry or self._open_telemetry(settings)
        upstreams, dropped = self._fleet.renew(settings.targets)
        old, self.services = self.services, Services(settings, upstreams, self.metrics, self._counter)
        changed = {upstream.name for upstream in dropped}
        self.ejections.configure(settings.routing.ejection, _counted_targets(settings, without=changed))
        task = asyncio.create_task(_retire(old, list(self._retiring.values()), dropped))
        self._retiring[task] = old
        task.add_done_callback(self._retiring.pop)
        self.telemetry = telemetry if settings.telemetry.enabled else None
        if telemetry is not None:
            if self.telemetry is None:
                self.run_in_background(telemetry.aclose())
            else:
                telemetry.use(settings)

    def _open_telemetry(self, settings: Settings) -> Telemetry | None:
        if not settings.telemetry.enabled:
            return None
        from penstock.gateway.telemetry.otel.telemetry import open_telemetry

        return open_telemetry(settings, self.metrics, self._environment)

    async def read(self, exchange: Exchange, most: int | None = None) -> bytes:
        """Return the body of a request, of at most `most` bytes and `body_bytes`. A client that sends nothing
        for too long is treated like one that reads nothing: `client_timeout` applies to both."""
        limits = self.services.settings.limits
        try:
            async with asyncio.timeout(limits.client_timeout):
                limit = limits.body_bytes if most is None else min(most, limits.body_bytes)
                return await self._bodies.read(exchange.receive, exchange.headers, limit)
        except TimeoutError:
            seconds = f"{limits.client_timeout or 0:g} seconds (limits.client_timeout)"
            message = f"the request body was not complete after {seconds}"
            raise RequestRefused(408, "request_timeout", message) from None

    def refuse_if_full(self) -> None:
        """Raise `RequestRefused` if no more turns are allowed: requests are never queued (ask J5)."""
        limit = self.services.settings.limits.max_turns
        if not self.is_draining and (not limit or self.running() + self._waiting < limit):
            return
        why = "the gateway is shutting down" if self.is_draining else f"{limit} turns are already running"
        headers = [("retry-after", "2")]
        message = f"{why}: try again in a moment"
        raise RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)

    async def unless_disconnected(self, exchange: Exchange, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which precedes the client's turn. If the client disconnects, cancel
        the work and raise `ClientDisconnected`: a follow-up may wait a long time for the response that it
        continues."""
        task, is_disconnected, is_over = asyncio.current_task(), False, False
        assert task is not None

        def cancel() -> None:
            nonlocal is_disconnected
            if not is_over:  # it may be called a moment later
                is_disconnected = True
                task.cancel()

        exchange.channel.on_disconnect(cancel)
        self._waiting += 1
        try:
            return await work
        except asyncio.CancelledError:
            if is_disconnected and task.uncancel() == 0:
                raise ClientDisconnected from None
            raise
        finally:
            is_over = True
            self._waiting -= 1
            exchange.channel.on_disconnect(None)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that no client waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def drain(self) -> None:
        """Wait for running turns to end, and stop those that take longer than `limits.drain`."""
        self.is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.services.settings.limits.drain):
                await self.turns.ended.wait()
        self.turns.stop(SHUTTING_DOWN)

    async def aclose(self) -> list[str]:
        """Close everything; return the ids of the responses that the store could no longer write."""
        for task in list(self._retiring):
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        # Before the upstreams are closed: background turns need them until they end.
        await asyncio.gather(*self._background, return_exceptions=True)
        for upstream in self._fleet.all():
            await upstream.aclose()
        if self.telemetry is not None:
            await self.telemetry.aclose()
        return await self.store.aclose()


def _counted_targets(settings: Settings, *, without: Collection[str]) -> set[TargetModel]:
    """Return the targets whose failures are counted: those of models with several."""
    return {
        (step.target, step.model or route.name)
        for route in settings.models.values()
        for step in route.steps
        if len(route.steps) > 1 and step.target not in without
    }


async def _retire(old: Services, older: list[Services], dropped: list[Upstream]) -> None:
    """Wait until no turn runs under old settings, then close the upstreams that only these turns needed."""
    for services in (old, *older):
        await services.idle.wait()
    for upstream in dropped:
        await upstream.aclose()
    log.debug("the last turn under the old settings has ended")
