"""The gateway, the editor routes and the inspector as one ASGI application.

`penstock serve` runs it in its own process. A program that already has a server can mount it there:
`Application(settings)` is a plain ASGI application that needs the server's lifespan messages.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from penstock.editor.route import editor_routes, own_url
from penstock.errors import PenstockError, StoreError
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.sealing import SHARED_NAME, load_sealer, new_secret
from penstock.gateway.http.asgi import Message, Receive, Send
from penstock.gateway.settings import ClientKey, Settings
from penstock.gateway.storage import NONE, open_gateway_store, own_files, secret_folder
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN
from penstock.inspector.routes import inspector_routes


async def open_app(
    settings: Settings,
    *,
    url: str = "",
    environment: Mapping[str, str] = os.environ,
    is_worker: bool = False,
) -> GatewayApp:
    """Open the store and return the gateway on the running event loop; `gateway.aclose` closes both.

    `url` is where this process reaches the gateway, because `POST /v1/parts` requests its responses there. It
    defaults to the host and port of the settings. A worker shares its store with others. Raises `StoreError`
    and `ConfigError`.
    """
    store = await open_gateway_store(
        settings.store,
        environment,
        direct_url=settings.store_direct_url,
        redis=settings.redis,
        is_worker=is_worker,
    )
    try:
        secrets = await store.shared_secrets(SHARED_NAME, new_secret())
        sealer = load_sealer(environment, secret_folder(settings.store, environment), secrets)
        gateway = Gateway(settings, store=store, sealer=sealer, clock=store.clock, environment=environment)
    except BaseException:
        await store.aclose()
        raise
    own = url or own_url(settings.host, settings.port)
    return GatewayApp(gateway, {**editor_routes(own), **inspector_routes()})


class PrivateGateway(Struct, frozen=True, kw_only=True):
    """A gateway that only this process knows of."""

    url: str
    """Without `/v1`."""
    gateway: Gateway
    store: str
    """The file of its store, or `none`."""


@asynccontextmanager
async def private_gateway(
    settings: Settings,
    *,
    keys: tuple[ClientKey, ...] = (),
    store: str = NONE,
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator[PrivateGateway]:
    """Run a gateway on the running event loop, at a free port of this machine.

    It has the targets and models of the settings, but no TLS and only these client keys. `store` is a file,
    empty for the user's default file, or `none`; while another gateway uses the file, a file next to it takes
    its place. Raises `StoreError` and `ConfigError`.
    """
    from penstock.gateway.server import listen, server_of, url_of  # not needed behind another server

    settings = replace(
        settings,
        host="127.0.0.1",
        keys=keys,
        tls_cert="",
        tls_key="",
        record=settings.record and store != NONE,
    )
    with listen(settings.host, 0) as listening:
        url = url_of(listening)
        app, file = await _open_private(settings, own_files(store, environment), url, environment)
        server = server_of(app)
        await server.listen(listening)
        try:
            async with app.running():
                yield PrivateGateway(url=url, gateway=app.gateway, store=file)
        finally:
            server.stop()
            app.gateway.turns.stop(SHUTTING_DOWN)
            await app.gateway.drain()
            server.abort()
            await app.gateway.aclose()


async def _open_private(
    settings: Settings, files: list[str], url: str, environment: Mapping[str, str]
) -> tuple[GatewayApp, str]:
    """Return the gateway with the first of these files that no other gateway uses, and that file."""
    for file in files[:-1]:
        try:
            return await open_app(replace(settings, store=file), url=url, environment=environment), file
        except StoreError as error:
            if error.code != StoreError.LOCKED:
                raise
    file = files[-1]
    return await open_app(replace(settings, store=file), url=url, environment=environment), file


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
