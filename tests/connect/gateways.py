"""Gateways to connect to."""

from __future__ import annotations

from penstock.connect.gateway import ConnectedGateway
from penstock.models.info import ModelInfo

URL = "http://127.0.0.1:8080/v1"


def connected(model: str = "fast", *names: str, key_variable: str = "") -> ConnectedGateway:
    models = tuple(
        ModelInfo(
            id=name,
            name=name,
            vendor="",
            family="",
            version="",
            context_window=64_000,
            max_input=48_000,
            max_output=16_000,
            image_input=True,
            tool_calling=True,
            reasoning=False,
            efforts=(),
            prices=None,
            description="",
            sources={},
        )
        for name in names
    )
    return ConnectedGateway(base_url=URL, model=model, key_variable=key_variable, models=models)
