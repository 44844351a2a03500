"""Explanations of error codes."""

from __future__ import annotations

from penstock.explain.meanings import MEANINGS, explained
from penstock.gateway.refusals import STATUSES
from penstock.gateway.turn.stop_reasons import CANCELLED, CLIENT_DISCONNECTED, CLIENT_STALLED, SHUTTING_DOWN
from penstock.stream.recovery import RESTARTED


def test_every_code_of_the_gateway_is_explained() -> None:
    stops = {each.code for each in (CANCELLED, CLIENT_DISCONNECTED, CLIENT_STALLED, SHUTTING_DOWN)}
    assert {*STATUSES, *stops, RESTARTED} - {*MEANINGS} == set()


def test_an_unknown_code_stands_alone() -> None:
    assert explained("tls_error") == "tls_error: the TLS handshake failed"
    assert explained("brand_new") == "brand_new"
