"""What the server refuses by itself, in the specification's error shape, and in the log."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import JSON, request_id_for
from penstock.gateway.telemetry.logs import log_fault, log_refused
from penstock.gateway.telemetry.metrics import OTHER
from penstock.net.server.channels import Headers
from penstock.net.server.refusals import Refusal


class ServerRefuser:
    """The gateway's `Refuser`."""

    def refuse(self, refusal: Refusal, method: str, headers: Mapping[str, str]) -> tuple[Headers, bytes]:
        type = "server_error" if refusal.is_server_error else "invalid_request"
        refused = RequestRefused(refusal.status, refusal.code, refusal.message, type=type)
        request_id = request_id_for(headers.get("x-request-id", ""))
        log_refused(refused, method, OTHER, request_id)
        return [("content-type", JSON), ("x-request-id", request_id)], refused.body()

    def report(self, error: Exception) -> None:
        log_fault(error, "")
