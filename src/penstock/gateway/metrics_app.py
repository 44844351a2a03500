"""The address for monitoring: `/metrics`, `/healthz` and `/readyz`, for which a client needs no key."""

from __future__ import annotations

from penstock.gateway.api import status
from penstock.gateway.app import GatewayApp
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import check_page_of_metrics, has_metrics_token, metrics_unauthorized
from penstock.gateway.http.exchange import ClientRequest, Exchange, SocketExchange
from penstock.gateway.routes import ROUTES, Route, Router, Routes
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.metrics import CONTENT_TYPE
from penstock.net.server.channels import SocketChannel


class MetricsApp(GatewayApp):
    """Serves the metrics of a gateway at their own address, to everyone or behind the token."""

    def _routes(self, more: Routes) -> Router:
        return Router(
            {
                "metrics": {"GET": Route(_show_metrics, is_open=True)},
                "healthz": ROUTES["healthz"],
                "readyz": ROUTES["readyz"],
                **more,
            }
        )

    async def serve_socket(self, channel: SocketChannel) -> None:
        """Refuse: there are no models here."""
        message = f"this address serves only metrics; {status.SUPPORTED}, at its own address"
        SocketExchange(channel).refuse(RequestRefused(404, "not_found", message, type="not_found"))

    def _check_page(self, exchange: ClientRequest) -> None:
        """Refuse all web pages."""
        check_page_of_metrics(self.gateway.services.settings, exchange.headers)


async def _show_metrics(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    if not has_metrics_token(gateway.services.settings, exchange.headers):
        raise metrics_unauthorized()
    exchange.answer(200, await gateway.metrics.gather(), content_type=CONTENT_TYPE)
