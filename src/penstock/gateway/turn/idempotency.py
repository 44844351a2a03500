"""Idempotency keys: a request that is sent again under the same key gets the same response (decision 32).

A key belongs to a tenant and to one request body. It is bound to a response when that response can be read:
from then on, the same request is answered from the response's log, and no upstream is called. A stored
response keeps its key for as long as it is stored, also after a restart; one with `store: false` is kept in
memory for a while, only for this.

A key can be used again if its response failed before any output, or if it was cancelled because its client
disconnected: there is nothing that the client could still get. After a crash the outcome is unknown, so the
key stays bound to the failed response (decision 33); if the response was not stored yet, the request is
refused for as long as the store holds the key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256

import msgspec
from msgspec import Struct

from penstock.errors import StoreError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import MIB
from penstock.gateway.turn.stop_reasons import CLIENT_DISCONNECTED, CLIENT_STALLED
from penstock.store import bounded_memory
from penstock.store.contract import Store
from penstock.store.records import HeldKey, StoredResponse
from penstock.stream.recovery import INTERRUPTIONS

HEADER = "idempotency-key"
LONGEST_KEY = 255

UNSTORED_SECONDS = 600.0
"""How long a response with `store: false` is kept for its key after it has ended."""
UNSTORED_BYTES = 64 * MIB
UNSTORED_RESPONSES = 1000

_LOOK_AGAIN = 0.2
"""Seconds between two looks at a key that another worker holds."""

_ANSWERED = b"answered "
"""Marks a key whose response only the worker has that answered."""

_DISCONNECTED = (CLIENT_DISCONNECTED.code, CLIENT_STALLED.code)


class Binding(Struct, frozen=True):
    """What the store remembers about a key."""

    response_id: str
    fingerprint: str
    """Of the request body."""


class Earlier(Struct, frozen=True):
    """The response that a key is bound to, and where it is stored."""

    id: str
    store: Store


class Claim:
    """A key whose request is being answered. `opened` is called when its response can be read."""

    def __init__(self, tenant: str, name: str, fingerprint: str) -> None:
        self.tenant, self.name, self.fingerprint = tenant, name, fingerprint
        self.earlier: Earlier | None = None
        self.readable = asyncio.Event()
        """Set when the response can be read, or never will be."""
        self.ended = asyncio.Event()
        self.is_held = False
        """Whether the store knows that this worker holds the key."""
        self.is_held_elsewhere = False

    def memory(self, response_id: str) -> Mapping[str, bytes]:
        """Return what the store must remember with the response."""
        return {self.name: msgspec.json.encode(Binding(response_id, self.fingerprint))}

    def opened(self, response_id: str, store: Store) -> None:
        self.earlier = Earlier(response_id, store)
        self.readable.set()


class _Coded(Struct, frozen=True):
    """An error, or a verdict."""

    code: str = ""


class _End(Struct, frozen=True):
    """The parts of a stored response that decide whether its key can be used again."""

    output: list[msgspec.Raw] = []
    error: _Coded | None = None


class IdempotencyKeys:
    """The keys of a gateway. Belongs to one event loop."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._claims: dict[tuple[str, str], Claim] = {}
        self.unstored = bounded_memory(
            most_bytes=UNSTORED_BYTES, most_responses=UNSTORED_RESPONSES, clock=clock
        )
        """Responses with `store: false`."""
        self._store, self._stores = store, (self.unstored, store)

    async def claim(self, tenant: str, key: str, fingerprint: str, *, follows: bool) -> Claim | Earlier:
        """Return the response that a key is bound to, or claim the key for a new one; then call `release`.

        If the same request is being answered, wait until its response can be read (`follows`), or has ended.
        Raise `RequestRefused` if the key was used with another body.
        """
        name = _name(key)
        while (running := self._claims.get((tenant, name))) is not None:
            _check(running.fingerprint, fingerprint)
            await (running.readable if follows else running.ended).wait()
            if follows and running.earlier is not None:
                return running.earlier
        claim = self._claims[tenant, name] = Claim(tenant, name, fingerprint)
        try:
            earlier = await self._hold(claim, follows=follows)
        except BaseException:
            await self.release(claim)
            raise
        if earlier is None:
            return claim
        await self.release(claim)
        return earlier

    async def _hold(self, claim: Claim, *, follows: bool) -> Earlier | None:
        """Hold the key for this worker, and return None; or return the response that it is bound to. If
        another worker holds it, wait as for a claim of this one."""
        tenant, name = claim.tenant, claim.name
        while True:
            earlier = await self._find(tenant, name, claim.fingerprint)
            if earlier is not None and (follows or not claim.is_held_elsewhere):
                return earlier
            holder = await self._store.hold(tenant, name, claim.fingerprint.encode())
            if holder is None:
                # It may have been bound in between.
                claim.is_held, claim.is_held_elsewhere = True, False
                return await self._find(tenant, name, claim.fingerprint)
            _check(holder.data.removeprefix(_ANSWERED).decode(), claim.fingerprint)
            if not holder.is_alive:
                if (earlier := await self._find(tenant, name, claim.fingerprint)) is not None:
                    return earlier  # it was bound in between
                raise _no_response(holder)
            claim.is_held_elsewhere = True
            await asyncio.sleep(_LOOK_AGAIN)

    async def release(self, claim: Claim) -> None:
        """End a claim: its request was answered or refused."""
        del self._claims[claim.tenant, claim.name]
        claim.readable.set()
        claim.ended.set()
        if claim.is_held:
            with suppress(StoreError):  # the store gives the key back later
                await self._give_back(claim)

    async def _give_back(self, claim: Claim) -> None:
        """Let other workers use a key, unless this worker alone has its response."""
        tenant, name, earlier = claim.tenant, claim.name, claim.earlier
        if earlier is not None and earlier.store is self.unstored:
            stored = await self.unstored.get(tenant, earlier.id)
            if stored is not None and not _is_free(stored):
                data = _ANSWERED + claim.fingerprint.encode()
                await self._store.retire(tenant, name, data, UNSTORED_SECONDS)
                return
        await self._store.release(tenant, name)

    async def prune(self) -> None:
        """Delete unstored responses that are too old."""
        await self.unstored.prune(older_than=self._clock() - UNSTORED_SECONDS)

    async def _find(self, tenant: str, name: str, fingerprint: str) -> Earlier | None:
        await self.prune()
        for store in self._stores:
            if (data := (await store.recall(tenant, [name])).get(name)) is None:
                continue
            binding = msgspec.json.decode(data, type=Binding)
            stored = await store.get(tenant, binding.response_id)
            if stored is not None and not _is_free(stored):
                _check(binding.fingerprint, fingerprint)
                return Earlier(stored.id, store)
        return None


def read_key(headers: Mapping[str, str]) -> str | None:
    """Return the idempotency key of a request; raise `RequestRefused` if it is invalid."""
    key = headers.get(HEADER)
    if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
        message = f"Idempotency-Key must have 1 to {LONGEST_KEY} printable characters"
        raise RequestRefused(400, "invalid_request", message, param=HEADER)
    return key


def fingerprint_of(body: bytes) -> str:
    return sha256(body).hexdigest()


def _name(key: str) -> str:
    """Return the name under which a key is remembered: keys of any kind share one memory with reasoning."""
    return f"idempotency:{sha256(key.encode()).hexdigest()}"


def _check(bound: str, fingerprint: str) -> None:
    if bound != fingerprint:
        message = "this Idempotency-Key was used with another request body: use a new key for a new request"
        raise _conflict("idempotency_key_reused", message)


def _no_response(holder: HeldKey) -> RequestRefused:
    """Return the refusal of a request that may have been answered, but whose response is not there."""
    if holder.data.startswith(_ANSWERED):
        message = "the request with this Idempotency-Key was answered, and its response was not stored"
    else:
        message = (
            "the gateway process that was answering the request with this Idempotency-Key died, "
            "and the model may have been called"
        )
    message += ": to run the request again, send it with a new key"
    return _conflict("idempotency_outcome_unknown", message)


def _conflict(code: str, message: str) -> RequestRefused:
    headers = [("x-should-retry", "false")]  # OpenAI's libraries retry a 409 without it
    return RequestRefused(409, code, message, param=HEADER, headers=headers)


def _is_free(stored: StoredResponse) -> bool:
    """Return whether the key of an ended response can be used again."""
    if stored.status == "failed":
        end = msgspec.json.decode(stored.response, type=_End)
        return not end.output and (end.error is None or end.error.code not in INTERRUPTIONS)
    if stored.status == "cancelled":
        return msgspec.json.decode(stored.verdict or b"{}", type=_Coded).code in _DISCONNECTED
    return False
