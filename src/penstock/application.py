"""The gateway and the editor routes as one ASGI application.

`penstock serve` runs it in its own process. A program that already has a server can mount it there:
`Application(settings)` is a plain ASGI application that needs the server's lifespan messages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.editor.route import editor_routes, own_url
from penstock.errors import PenstockError
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.sealing import load_sealer
from penstock.gateway.http.asgi import Message, Receive, Send
from penstock.gateway.settings import Settings
from penstock.gateway.storage import open_gateway_store, secret_folder


async def open_app(
    settings: Settings, *, url: str = "", environment: Mapping[str, str] = os.environ
) -> GatewayApp:
    """Open the store and return the gateway on the running event loop; `gateway.aclose` closes both.

    `url` is where this process reaches the gateway, because `POST /v1/parts` requests its responses there. It
    defaults to the host and port of the settings. Raises `StoreError` and `ConfigError`.
    """
    sealer = load_sealer(environment, secret_folder(settings.store, environment))
    store = await open_gateway_store(settings.store, environment)
    try:
        gateway = Gateway(settings, store=store, sealer=sealer)
    except BaseException:
        await store.aclose()
        raise
    return GatewayApp(gateway, editor_routes(url or own_url(settings.host, settings.port)))


class Application:
    """An ASGI application that opens its gateway when the server starts and closes it when the server stops.

    At shutdown, running turns have `limits.drain` seconds before they are stopped.
    """

    def __init__(
        self, settings: Settings, *, url: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self._settings, self._url, self._environment = settings, url, environment
        self._app: GatewayApp | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._app is None:
            raise RuntimeError("the application is not started: its server must send lifespan messages")
        else:
            await self._app(scope, receive, send)

    async def _lifespan(self, scope: Message, receive: Receive, send: Send) -> None:
        startup = [await receive()]
        try:
            self._app = await open_app(self._settings, url=self._url, environment=self._environment)
        except PenstockError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return

        async def receive_again() -> Message:
            return startup.pop() if startup else await receive()

        await self._app(scope, receive_again, send)
        self._app = None
