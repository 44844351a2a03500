"""Connections to the database: a pool with bounds, and a deadline for every call.

A connection belongs to one call at a time. After a call that was cancelled, that took too long or whose
connection broke, the connection is dropped, because the rest of a reply may still be on its way. Whoever
needs a connection waits for a limited time, together with a limited number of others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from penstock.errors import StoreError
from penstock.store.postgres.address import DatabaseAddress
from penstock.store.postgres.failures import failure_of, is_database_error, is_lost, library

DEADLINE = 5.0
"""Seconds for a call, including the wait for a connection."""
_MOST_WAITING = 512
"""Callers that wait for a connection."""
_CONNECT_TIMEOUT = 5.0
_CLOSE_TIMEOUT = 1.0
_SETTINGS = {
    "application_name": "penstock",
    "statement_timeout": "60s",
    "lock_timeout": "5s",
    # A query whose caller has given up must not run to its end.
    "client_connection_check_interval": "2s",
    # Compiling would take longer than these statements.
    "jit": "off",
}
_LONGEST_IDLE = 10.0
"""Seconds that a transaction may wait for its worker, if its lease is not shorter."""

T = TypeVar("T")


class DatabaseConnection(Protocol):
    """What the store uses of a connection of asyncpg."""

    async def fetch(self, query: str, *args: object) -> Sequence[Any]: ...

    async def fetchrow(self, query: str, *args: object) -> Any: ...

    async def fetchval(self, query: str, *args: object) -> Any: ...

    async def execute(self, query: str, *args: object) -> str: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float) -> None: ...


Job = Callable[[DatabaseConnection], Awaitable[T]]


def _settings(address: DatabaseAddress) -> dict[str, str]:
    # A worker that is stopped in a transaction must not keep others from taking its turns over.
    idle = min(_LONGEST_IDLE, address.lease)
    return {**_SETTINGS, "idle_in_transaction_session_timeout": f"{idle * 1000:.0f}ms"}


def _local_settings(address: DatabaseAddress) -> str:
    settings = _settings(address).items()
    return "".join(
        f"; SET LOCAL {name} = '{value}'" for name, value in settings if name != "application_name"
    )


async def connect(url: str, address: DatabaseAddress) -> DatabaseConnection:
    """Connect to one of the URLs of an address; raise `StoreError` or what asyncpg raises."""
    is_pooled = address.pooler == "transaction" and url == address.url
    asyncpg = library()
    try:
        connection: DatabaseConnection = await asyncpg.connect(
            url,
            timeout=_CONNECT_TIMEOUT,
            server_settings={"application_name": "penstock"} if is_pooled else _settings(address),
            statement_cache_size=0 if is_pooled else 100,
        )
    except ValueError:
        message = "the URL cannot be read: check its host, port and options"
        raise StoreError(StoreError.ADDRESS, f"{address.location}: {message}") from None
    return connection


@asynccontextmanager
async def transaction(connection: DatabaseConnection, begin: str = "BEGIN") -> AsyncIterator[None]:
    await connection.execute(begin)
    try:
        yield
    except BaseException as error:
        if not is_lost(error):
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")


class DatabasePool:
    def __init__(self, address: DatabaseAddress, *, most_waiting: int = _MOST_WAITING) -> None:
        self.address = address
        self._idle: list[DatabaseConnection] = []
        self._free = address.pool_size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._most_waiting = most_waiting
        self._is_closed = False
        self._is_pooled = address.pooler == "transaction"
        # A pooler of transactions does not keep settings between them.
        self._begin = "BEGIN" + (_local_settings(address) if self._is_pooled else "")

    async def run(self, job: Job[T], *, seconds: float = DEADLINE) -> T:
        """Run one statement and return its result. It is repeated on a new connection if an idle one was
        broken, so it must be one that may run twice."""
        try:
            return await self._run(job, seconds, needs_transaction=self._is_pooled)
        except StoreError as error:
            if error.code != StoreError.UNREACHABLE or isinstance(error.__cause__, TimeoutError):
                raise
        return await self._run(job, seconds, needs_transaction=self._is_pooled)

    async def transact(
        self, job: Job[T], *, seconds: float = DEADLINE, is_synced: bool = True, is_urgent: bool = False
    ) -> T:
        """Run statements in a transaction and return the result. Raise `StoreError` if it is not known to be
        committed. Unless `is_synced`, a crash of the server may undo it."""
        begin = "" if is_synced else "; SET LOCAL synchronous_commit = off"
        return await self._run(job, seconds, needs_transaction=True, begin=begin, is_urgent=is_urgent)

    async def _run(
        self,
        job: Job[T],
        seconds: float,
        *,
        needs_transaction: bool,
        begin: str = "",
        is_urgent: bool = False,
    ) -> T:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        has_place = False
        try:
            async with asyncio.timeout(seconds), self._place(is_urgent):
                has_place = True
                async with self._connection() as connection:
                    if not needs_transaction:
                        return await job(connection)
                    async with transaction(connection, self._begin + begin):
                        return await job(connection)
        except Exception as error:
            if not is_database_error(error):
                raise
            if isinstance(error, TimeoutError) and not has_place:
                raise self._exhausted() from None
            raise self.failure(error) from error

    def failure(self, error: BaseException) -> StoreError:
        """Return the error that our callers get. Its message names the database."""
        code, message = failure_of(error)
        return StoreError(code, f"{self.address.location}: {message}")

    def _exhausted(self) -> StoreError:
        size = self.address.pool_size
        return StoreError(
            StoreError.BUSY,
            f"{self.address.location}: all {size} connections of this worker are in use; "
            "try again, or allow more with ?pool_size= in the URL",
        )

    # Places: how many calls may have a connection

    @asynccontextmanager
    async def _place(self, is_urgent: bool) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_place(is_urgent)
        try:
            yield
        finally:
            self._leave()

    async def _wait_for_place(self, is_urgent: bool) -> None:
        if len(self._waiting) >= self._most_waiting and not is_urgent:
            raise self._exhausted()
        place = asyncio.get_running_loop().create_future()
        if is_urgent:
            self._waiting.appendleft(place)
        else:
            self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()
            elif place in self._waiting:  # `_leave` may have skipped it already
                self._waiting.remove(place)
            raise

    def _leave(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    # Connections

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[DatabaseConnection]:
        connection = self._take_idle() or await connect(self.address.url, self.address)
        try:
            yield connection
        except BaseException as error:
            if not is_lost(error):
                self._put_back(connection)
                raise
            connection.terminate()
            self._drop_idle()  # whatever broke this one has probably broken them as well
            raise
        self._put_back(connection)

    def _take_idle(self) -> DatabaseConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_back(self, connection: DatabaseConnection) -> None:
        if self._is_closed:
            connection.terminate()
        else:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    async def aclose(self) -> None:
        self._is_closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(
            *(connection.close(timeout=_CLOSE_TIMEOUT) for connection in idle), return_exceptions=True
        )
